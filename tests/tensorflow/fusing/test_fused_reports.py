"""Reports, tools and rewritten graphs tell of normalizations that run as one op."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tests.tensorflow.calls.twins_probe import ON_CPU, executed
from tests.tensorflow.fusing.norm_models import IMAGES, layered, model, spelled_out, step

import mixdown
from mixdown.core.pricing.effort import readable

FORWARD = "FusedBatchNormV3"
SPELLED_OUT = ON_CPU.with_keep("Rsqrt")  # a rule for a part of it keeps all of it


def test_a_report_says_what_runs_in_place_of_what() -> None:
    report = mixdown.explain(step(model()), policy=ON_CPU)
    (row,) = report.graphs[0].merged
    assert f"1 {FORWARD}, with gradients, in place of {len(row.parts)} ops spelled out." in str(report)
    (gone,) = (part for part in row.parts if part.endswith("batchnorm/Rsqrt"))
    first, second = report.why(gone).splitlines()[:2]
    assert first.startswith(f"{gone} is not run: ")
    assert f"({FORWARD}) is float16" in second
    assert report.from_json(report.to_json()).why(gone) == report.why(gone)


def test_a_plan_says_it_too() -> None:
    graph_def = spelled_out().get_concrete_function().graph.as_graph_def()
    fetches = [node.name for node in graph_def.node if node.name.startswith("Identity")]
    rewrite = mixdown.rewrite_graph_def(graph_def, fetches, policy=ON_CPU)
    assert f"({FORWARD}) is float16" in rewrite.plan.why("batchnorm/Rsqrt")
    kinds = [node.op for node in rewrite.graph_def.node]
    assert (kinds.count(FORWARD), kinds.count("SquaredDifference")) == (1, 0)
    assert {node.name for node in rewrite.graph_def.node}.issuperset(fetches)


@pytest.mark.parametrize("fetched", ["moments/SquaredDifference", "batchnorm/add_1", "moments/Squeeze_1"])
def test_a_part_that_is_fetched_stays(fetched: str) -> None:
    graph_def = spelled_out().get_concrete_function().graph.as_graph_def()
    rewrite = mixdown.rewrite_graph_def(graph_def, ["Identity", fetched], policy=ON_CPU)
    assert not rewrite.plan.graph.merged
    (node,) = (node for node in rewrite.graph_def.node if node.name == fetched)
    assert node.attr["T"].type == tf.float32.as_datatype_enum


@pytest.mark.parametrize("net", [model(), model(shared=True), layered(shared=True)])
def test_bytes_are_compared_with_those_of_the_program_as_it_is(net: Any) -> None:
    """Whatever is run, float32 is what runs without mixdown."""
    train = step(net, batch=128)
    plain, merged = (mixdown.explain(train, policy=policy, device="A100").graphs[0] for policy in (SPELLED_OUT, ON_CPU))
    assert merged.merged
    np.testing.assert_allclose(merged.effort.float32_bytes, plain.effort.float32_bytes, rtol=0.01)  # vectors aside
    one, other = (graph.effort.predicted[0].float32 for graph in (plain, merged))
    np.testing.assert_allclose(one, other, rtol=0.01)
    assert merged.effort.bytes < 0.6 * plain.effort.bytes


def test_a_preview_predicts_what_xla_would_save() -> None:
    function = step(model(), batch=512)
    (note,) = (note for note in mixdown.explain(function, policy=ON_CPU).notes if "jit_compile" in note)
    assert note.startswith("train: compiled by XLA (jit_compile=True), it would move 0.")
    assert note.endswith(", predicted).")
    compiled = mixdown.explain(step(model(), batch=512, jit_compile=True), policy=ON_CPU)
    assert not [note for note in compiled.notes if "jit_compile" in note]
    assert f"({readable(compiled.graphs[0].effort.bytes)}, predicted)" in note


def test_what_xla_cannot_compile_is_not_predicted() -> None:
    @tf.function(input_signature=[tf.TensorSpec((512, 512))])
    def function(x: Any) -> Any:
        return tf.strings.length(tf.strings.as_string(tf.matmul(x, x)))

    assert not [note for note in mixdown.explain(function, policy=ON_CPU).notes if "jit_compile" in note]


def test_tools_see_the_op_that_runs() -> None:
    compared = mixdown.numerics.compare(step(model()), IMAGES, policy=ON_CPU)
    (row,) = (row for row in compared.tensors if row.kind == FORWARD and row.dtype == "float16")
    assert row.name.endswith("batchnorm/add_1:0")
    assert 0.0 < row.errors.relative < 0.01


def test_a_step_that_is_traced_again_runs_the_same_ops() -> None:
    """The plan of the first is taken over, for functions of other names."""
    steps = [spelled_out() for _ in range(2)]  # all names but those of the functions are the same
    with mixdown.rewriting(ON_CPU):
        ran = [executed(partial(train, IMAGES)) for train in steps]
    assert ran[0].dtypes(FORWARD) == ran[1].dtypes(FORWARD) == ["float16"]
    np.testing.assert_array_equal(ran[0].value[0], ran[1].value[0])
