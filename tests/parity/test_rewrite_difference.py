"""The comparison itself: it finds every kind of difference and overlooks what means the same."""

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
from benchmarks.oracle import CPU, theirs
from benchmarks.rewrite_difference import differences
from tests.parity.chains import ChainBuilder

HALF = tf.float16.as_datatype_enum


def sample() -> tuple[Any, Any]:
    builder = ChainBuilder()
    fetches = builder.fetch(builder.chain("DACI", builder.source()))
    return builder.graph_def, theirs(builder.graph_def, fetches, "float16")


def node(graph_def: Any, name: str) -> Any:
    return next(candidate for candidate in graph_def.node if candidate.name.startswith(name))


def change_type(rewritten: Any) -> None:
    node(rewritten, "Tanh").attr["T"].type = HALF


def change_kind(rewritten: Any) -> None:
    node(rewritten, "Tanh").op = "Elu"


def drop_a_cast(rewritten: Any) -> None:
    matmul = node(rewritten, "MatMul")
    matmul.input[0] = node(rewritten, "Exp").name


def split_a_cast(rewritten: Any) -> None:
    copy = rewritten.node.add()
    copy.CopyFrom(next(candidate for candidate in rewritten.node if "CastToFp16" in candidate.name))
    copy.name += "-again"


def cast_elsewhere(rewritten: Any) -> None:
    next(candidate for candidate in rewritten.node if "CastToFp32" in candidate.name).attr["DstT"].type = HALF


def lose_a_node(rewritten: Any) -> None:
    rewritten.node.remove(node(rewritten, "Tanh"))


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (change_type, "Tanh Tanh_6.T: ours float16, theirs float32"),
        (change_kind, "Tanh Tanh_6.kind: ours Elu, theirs Tanh"),
        (drop_a_cast, "only theirs: cast Exp_1:0 -> float16 for MatMul_"),
        (split_a_cast, "only ours: cast Exp_1:0 -> float16 for "),
        (cast_elsewhere, "only ours: cast Relu_"),
        (lose_a_node, "Tanh_6 is missing from our rewrite"),
    ],
)
def test_every_fault_is_found(fault: Callable[[Any], None], message: str) -> None:
    original, reference = sample()
    ours = tf.compat.v1.GraphDef.FromString(reference.SerializeToString())
    assert differences(original, ours, reference) == []
    fault(ours)
    found = differences(original, ours, reference)
    assert any(line.startswith(message) for line in found), found


def test_names_of_casts_do_not_count() -> None:
    original, reference = sample()
    ours = tf.compat.v1.GraphDef.FromString(reference.SerializeToString())
    for each in ours.node:
        each.name = each.name.replace("-AutoMixedPrecision", "-by-us")
        each.input[:] = [name.replace("-AutoMixedPrecision", "-by-us") for name in each.input]
    assert any("-by-us" in each.name for each in ours.node)
    assert differences(original, ours, reference) == []


def test_a_batch_norm_that_was_only_renamed_does_not_count() -> None:
    builder = ChainBuilder()
    image = builder.node("Placeholder", dtype=tf.float32, shape=tf.TensorShape([4, 4, 4, 4]))
    statistics = [builder.node("Placeholder", dtype=tf.float32, shape=tf.TensorShape([4])) for _ in range(4)]
    fetches = builder.fetch(builder.node("FusedBatchNorm", [image, *statistics]))
    reference = theirs(builder.graph_def, fetches, "float16")
    assert node(reference, "FusedBatchNorm").op == "FusedBatchNormV2"
    assert differences(builder.graph_def, builder.graph_def, reference) == []
    node(reference, "FusedBatchNorm").attr["T"].type = HALF
    assert differences(builder.graph_def, builder.graph_def, reference)


def test_the_oracle_leaves_its_input_and_the_devices_alone() -> None:
    builder = ChainBuilder()
    fetches = builder.fetch(builder.chain("AC", builder.source()))
    builder.graph_def.node[0].device = CPU
    before = builder.graph_def.SerializeToString(deterministic=True)
    reference = theirs(builder.graph_def, fetches, "float16")
    assert builder.graph_def.SerializeToString(deterministic=True) == before
    placed = {each.name.split("-")[0] for each in reference.node if each.device}
    assert placed == {builder.graph_def.node[0].name}


def test_the_bfloat16_process_raises_here_what_went_wrong_there() -> None:
    builder = ChainBuilder()
    builder.chain("A", builder.source())
    with pytest.raises(RuntimeError, match="Failed to import metagraph"):
        theirs(builder.graph_def, ["no_such_node:0"], "bfloat16")
