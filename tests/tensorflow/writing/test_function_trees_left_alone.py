"""Functions we do not follow: used by tf.data or other ops, parametrised, or missing. They stay as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tests.tensorflow.graph_kit import (
    CPU,
    EYE,
    ONES,
    checked,
    find,
    graph_of,
    low_nodes,
    matmul,
    out,
    raw,
    run,
    types_of,
    v1,
    x,
)

from mixdown import Policy, rewrite_graph_def

FEEDS = {"x": ONES, "y": EYE / 2}
MATRIX = tf.TensorSpec([2, 2], tf.float32)
FLOAT = tf.float32.as_datatype_enum


def library(graph_def: Any) -> dict[str, Any]:
    return {function.signature.name: function for function in graph_def.library.function}


def call_node(graph_def: Any, kind: str) -> Any:
    return next(node for node in graph_def.node if node.op == kind)


@tf.function(autograph=False, input_signature=[MATRIX])
def dense(value: Any) -> Any:
    return tf.nn.relu(matmul(value, tf.eye(2), "inner"))


def mapped(function: Any) -> Any:
    """The first element of a dataset that a function was mapped over."""
    data = raw.TensorSliceDataset(components=[tf.constant(ONES[None])], output_shapes=[[2, 2]])
    mapped = raw.MapDataset(
        input_dataset=data,
        other_arguments=[],
        f=function,
        output_types=[tf.float32],
        output_shapes=[[2, 2]],
        name="map",
    )
    iterator = raw.IteratorV2(
        shared_name="", container="", output_types=[tf.float32], output_shapes=[[2, 2]], name="it"
    )
    raw.MakeIterator(dataset=mapped, iterator=iterator, name="make")
    return raw.IteratorGetNext(iterator=iterator, output_types=[tf.float32], output_shapes=[[2, 2]], name="next")[0]


def test_a_function_that_only_tf_data_uses_is_unchanged() -> None:
    concrete = dense.get_concrete_function()
    graph_def = graph_of(lambda: out(matmul(mapped(concrete), x("y"), "m")))
    result = checked(graph_def, {"y": EYE}, init="make")
    assert library(result.graph_def) == library(graph_def)
    assert low_nodes(result.graph_def) == {"m"}


def test_a_function_that_tf_data_uses_too_stays_beside_its_twin() -> None:
    concrete = dense.get_concrete_function()
    graph_def = graph_of(lambda: out(matmul(concrete(mapped(concrete)), x("y"), "m")))
    (name,) = library(graph_def)
    result = checked(graph_def, {"y": EYE}, init="make")
    assert set(library(result.graph_def)) == {name, f"{name}__float16"}
    assert library(result.graph_def)[name] == library(graph_def)[name]
    assert call_node(result.graph_def, "PartitionedCall").attr["f"].func.name == f"{name}__float16"
    assert call_node(result.graph_def, "MapDataset").attr["f"].func.name == name


def test_an_unused_function_stays_in_the_library() -> None:
    graph_def = graph_of(lambda: out(matmul(x(), x("y"), "m")))
    graph_def.library.function.add().CopyFrom(dense.get_concrete_function().function_def)
    result = rewrite_graph_def(graph_def, ["out"], policy=CPU)
    assert library(result.graph_def) == library(graph_def)


def test_a_function_with_a_registered_gradient_stays() -> None:
    graph_def = graph_of(lambda: out(dense(x())))
    (name,) = library(graph_def)
    graph_def.library.gradient.add(function_name=name, gradient_func=name)
    result = rewrite_graph_def(graph_def, ["out"], policy=CPU)
    assert set(library(result.graph_def)) == {name, f"{name}__float16"}


def generic_function() -> Any:
    """A function whose argument has the type of its attribute T."""
    function = v1.GraphDef().library.function.add()
    function.signature.name = "Generic"
    function.signature.attr.add(name="T", type="type")
    function.signature.input_arg.add(name="a", type_attr="T")
    function.signature.output_arg.add(name="b", type_attr="T")
    node = function.node_def.add(name="double", op="AddV2", input=["a", "a"])
    node.attr["T"].placeholder = "T"
    function.ret["b"] = "double:z:0"
    return function


def calling_generic(kind: str) -> Any:
    """A graph in which the generic function stands between two products, called by its name or by a call."""
    graph_def = graph_of(lambda: out(matmul(dense(matmul(x(), x("y"), "one")), x("y"), "last")))
    del graph_def.library.function[:]
    graph_def.library.function.add().CopyFrom(generic_function())
    call = call_node(graph_def, "PartitionedCall")
    if kind == "Generic":
        call.op = "Generic"
        call.attr.clear()
        call.attr["T"].type = FLOAT
    else:
        call.attr["f"].func.name = "Generic"
        call.attr["f"].func.attr["T"].type = FLOAT
    return graph_def, call.name


@pytest.mark.parametrize(
    "kind",
    [
        "PartitionedCall",
        "Generic",
    ],
)
def test_a_parametrised_function_is_left_alone_with_casts_around_it(kind: str) -> None:
    graph_def, name = calling_generic(kind)  # TensorFlow's Python cannot import such a graph: look at the text
    rewritten = rewrite_graph_def(graph_def, ["out"], policy=CPU).graph_def
    assert low_nodes(rewritten) == {"one", "last"}
    assert library(rewritten) == library(graph_def)
    assert find(rewritten, name).input[0] == "one/cast_0_to_float32"
    assert find(rewritten, "last").input[0] == f"{name}/cast_0_to_float16"


@pytest.mark.parametrize(
    "low",
    [
        "float16",
        "bfloat16",
    ],
)
def test_a_loop_whose_body_we_cannot_rewrite_keeps_its_types(low: str) -> None:
    def build() -> None:
        start = matmul(x(), x("y"), "one")
        (value,) = tf.while_loop(lambda v: v[0, 0] < 9.0, lambda v: (v + v,), (start,))
        out(matmul(value, x("y"), "last"))

    graph_def = graph_of(build)
    loop = call_node(graph_def, "StatelessWhile")
    body = library(graph_def)[loop.attr["body"].func.name]
    body.signature.attr.add(name="Unused", type="type").default_value.type = FLOAT
    loop.attr["body"].func.attr["Unused"].type = FLOAT
    result = checked(graph_def, FEEDS, policy=Policy(low=low, rules="tf-2.21", strategy="grappler", devices=("CPU",)))
    assert {"one", "last"} <= low_nodes(result.graph_def)
    assert result.types(loop.name) == types_of(loop)


def test_a_symbolic_gradient_of_a_rewritten_function_still_runs() -> None:
    def build() -> None:
        out(dense(x()))
        grad = raw.SymbolicGradient(
            input=[x(), x("y")], Tout=[tf.float32], f=dense.get_concrete_function(), name="grad"
        )
        out(grad[0], "out2")

    graph_def = graph_of(build)
    (name,) = library(graph_def)
    result = rewrite_graph_def(graph_def, ["out", "out2"], policy=CPU)
    assert library(result.graph_def)[name] == library(graph_def)[name]
    np.testing.assert_array_equal(
        run(result.graph_def, ["out2"], FEEDS).values[0], run(graph_def, ["out2"], FEEDS).values[0]
    )


@pytest.mark.parametrize("change", ["with_keep", "with_deny"])
def test_calls_can_be_kept_or_denied_by_kind(change: str) -> None:
    graph_def = graph_of(lambda: out(matmul(dense(matmul(x(), x("y"), "one")), x("y"), "last")))
    result = checked(graph_def, FEEDS, policy=getattr(CPU, change)("PartitionedCall"))
    call = call_node(result.graph_def, "PartitionedCall")
    assert types_of(call) == {"Tin": ["float32"], "Tout": ["float32"]}
    assert low_nodes(result.graph_def) >= {"one", "inner", "last"}
