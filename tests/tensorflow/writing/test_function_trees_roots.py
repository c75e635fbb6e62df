"""A function as the outermost body: its signature is what callers rely on, all below it may change."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from tests.tensorflow.graph_kit import CPU, EYE, ONES, checked, find, graph_of, low_nodes, matmul, out, raw, types_of, x

from mixdown.core import make_plan
from mixdown.tensorflow.protos.bodies import function_body
from mixdown.tensorflow.reading.read import read
from mixdown.tensorflow.writing.apply import apply

MATRIX = tf.TensorSpec([2, 2], tf.float32)
FLOAT = tf.float32.as_datatype_enum


def concrete(function: Any, *signature: Any) -> tuple[Any, dict[str, Any]]:
    """The FunctionDef of a traced function, and the library it needs."""
    traced = tf.function(function, autograph=False).get_concrete_function(*signature)
    library = {f.signature.name: f for f in traced.graph.as_graph_def().library.function}
    return traced.function_def, library


def rewritten(root: Any, library: dict[str, Any]) -> Any:
    reading = read(function_body(root), library, CPU)
    plan = make_plan(reading.graph, CPU)
    applied, _ = apply(reading, plan, lambda name: f"{name}_low")
    return applied, plan


def test_the_signature_of_the_outermost_function_stays() -> None:
    root, library = concrete(lambda a, b: tf.nn.relu(matmul(a, b, "m")), MATRIX, MATRIX)
    applied, plan = rewritten(root, library)
    assert {arg.type for arg in (*applied.signature.input_arg, *applied.signature.output_arg)} == {FLOAT}
    assert types_of(next(node for node in applied.node_def if node.name == "m")) == {"T": "float16"}
    assert "it is part of the signature that callers rely on" in plan.why("a")


def test_a_list_that_comes_with_the_call_stays_full() -> None:
    def function(handle: Any, value: Any) -> Any:
        return raw.TensorListPushBack(input_handle=handle, tensor=matmul(value, value, "m"), name="push")

    root, library = concrete(function, tf.TensorSpec([], tf.variant), MATRIX)
    applied, plan = rewritten(root, library)
    kinds = {node.op: types_of(node) for node in applied.node_def}
    assert kinds["TensorListPushBack"] == {"element_dtype": "float32"}
    assert kinds["MatMul"] == {"T": "float16"}
    push = next(node.name for node in root.node_def if node.op == "TensorListPushBack")
    assert "its tensor list comes from or goes to the caller of the function" in plan.why(push)


def test_a_function_between_two_that_change_calls_the_new_one() -> None:
    inner = tf.function(lambda value: tf.math.log1p(matmul(value, value, "m")), autograph=False)
    middle = tf.function(lambda value: -tf.math.log1p(inner(tf.math.log1p(value))), autograph=False)
    graph_def = graph_of(lambda: out(middle(x())))
    result = checked(graph_def, {"x": ONES / 8})
    names = [function.signature.name for function in result.graph_def.library.function]
    assert len(names) == 2
    assert all(name.endswith("__float16") for name in names)
    assert types_of(next(node for node in result.graph_def.node if node.op == "PartitionedCall"))["Tout"] == ["float32"]
    assert "m" in low_nodes(result.graph_def)


def test_control_inputs_on_arguments_and_results_that_are_arguments() -> None:
    @tf.function(autograph=False)
    def keep(value: Any, other: Any) -> Any:
        with tf.control_dependencies([other]):
            return value, matmul(value, other, "m")

    graph_def = graph_of(
        lambda: [out(tf.exp(v), name) for v, name in zip(keep(x(), x("y")), ("out", "out2"), strict=True)]
    )
    (function,) = graph_def.library.function
    next(node for node in function.node_def if node.op == "MatMul").input.append("^other")
    result = checked(graph_def, {"x": ONES, "y": EYE}, ["out", "out2"])
    assert low_nodes(result.graph_def) >= {"m"}


def test_functions_that_tensorflow_chooses_from_keep_their_signature() -> None:
    @tf.function(autograph=False)
    def dense(value: Any) -> Any:
        return matmul(tf.nn.relu(matmul(value, value, "a")), value, "b")

    graph_def = graph_of(lambda: out(matmul(dense(matmul(x(), x("y"), "before")), x("y"), "after")))
    graph_def.library.function[0].attr["api_implements"].s = b"dense_1"
    result = checked(graph_def, {"x": ONES / 2, "y": EYE})
    (function,) = result.graph_def.library.function
    assert {arg.type for arg in (*function.signature.input_arg, *function.signature.output_arg)} == {FLOAT}
    assert {"a", "b", "before", "after"} <= low_nodes(result.graph_def)


def test_a_function_that_xla_compiles_is_asked_for_the_kernels_of_xla() -> None:
    @tf.function(autograph=False, jit_compile=True)
    def pooled(volume: Any) -> Any:
        conv: dict[str, Any] = {"filter": tf.ones([1, 1, 1, 1, 1]), "strides": [1] * 5, "padding": "SAME"}
        first = raw.Conv3D(input=volume, name="first", **conv)
        pool = raw.AvgPool3D(input=first, ksize=[1, 2, 2, 2, 1], strides=[1] * 5, padding="SAME", name="pool")
        return tf.identity(raw.Conv3D(input=pool, name="last", **conv))

    graph_def = graph_of(lambda: out(pooled(x("v", (1, 2, 2, 2, 1)))))
    result = checked(graph_def, {"v": np.ones((1, 2, 2, 2, 1), np.float32)})
    assert types_of(find(result.graph_def, "pool")) == {"T": "float16"}  # XLA has what the CPU lacks
