"""Calls and functional control flow: a decision crosses function boundaries, and both sides still fit."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf
from tests.tensorflow.graph_kit import (
    BFLOAT16,
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
    types_of,
    x,
)

from mixdown import rewrite_graph_def

policies = pytest.mark.parametrize("policy", [CPU, BFLOAT16], ids=lambda policy: policy.low)
FEEDS = {"x": ONES, "y": EYE / 2}
MATRIX = tf.TensorSpec([2, 2], tf.float32)


def signatures(graph_def: Any) -> dict[str, tuple[list[str], list[str]]]:
    """Argument and result types of every function, by name."""
    return {
        function.signature.name: (
            [tf.as_dtype(arg.type).name for arg in function.signature.input_arg],
            [tf.as_dtype(arg.type).name for arg in function.signature.output_arg],
        )
        for function in graph_def.library.function
    }


def call_node(graph_def: Any, kind: str) -> Any:
    return next(node for node in graph_def.node if node.op == kind)


@policies
def test_a_value_crosses_a_call_in_16_bits(policy: Any) -> None:
    @tf.function(autograph=False)
    def dense(value: Any) -> Any:
        return tf.nn.relu(matmul(value, tf.eye(2), "inner"))

    graph_def = graph_of(lambda: out(matmul(dense(matmul(x(), x("y"), "before")), x("y"), "after")))
    result = checked(graph_def, FEEDS, policy=policy)
    call = call_node(result.graph_def, "PartitionedCall")
    assert types_of(call) == {"Tin": [policy.low], "Tout": [policy.low]}
    (signature,) = signatures(result.graph_def).values()
    assert signature == ([policy.low], [policy.low])
    assert result.run.low() >= {"before", "after"}


def test_a_denied_op_in_a_callee_denies_what_follows_the_call() -> None:
    @tf.function(autograph=False)
    def exponential(value: Any) -> Any:
        return tf.exp(value, name="inner")

    graph_def = graph_of(lambda: out(matmul(tf.tanh(exponential(matmul(x(), x("y"), "a")), name="t"), x("y"), "b")))
    result = checked(graph_def, FEEDS)
    assert "t" not in low_nodes(result.graph_def)
    assert "inner" in result.plan.why("t")


@policies
@pytest.mark.parametrize("lowered", [True, False], ids=["lowered", "functional"])
def test_a_while_loop_carries_16_bits(policy: Any, *, lowered: bool) -> None:
    def build() -> None:
        weights = x("y")
        _, value = tf.while_loop(lambda i, _: i < 3, lambda i, v: (i + 1, matmul(v, weights, "m")), (0, x()))
        out(value)

    graph_def = graph_of(build)
    call_node(graph_def, "StatelessWhile").attr["_lower_using_switch_merge"].b = lowered
    result = checked(graph_def, FEEDS, policy=policy)
    types = types_of(call_node(result.graph_def, "StatelessWhile"))["T"]
    assert types[3] == policy.low
    assert all(arguments == types for arguments, _ in signatures(result.graph_def).values())


def test_a_loop_constant_that_only_low_ops_read_is_cast_once_outside() -> None:
    def build() -> None:
        weights = x("y")
        _, value = tf.while_loop(lambda i, _: i < 3, lambda i, v: (i + 1, matmul(v, weights, "m")), (0, x()))
        out(value)

    result = checked(graph_of(build), FEEDS)
    assert types_of(call_node(result.graph_def, "StatelessWhile"))["T"][3:] == ["float16", "float16"]


def test_a_while_loop_whose_condition_needs_the_value_full_keeps_it_full() -> None:
    def build() -> None:
        weights = x("y")
        (value,) = tf.while_loop(lambda v: tf.reduce_sum(v) > 1.0, lambda v: (matmul(v, weights, "m"),), (x(),))
        out(value)

    result = checked(graph_of(build), FEEDS)
    assert result.run.low(of="m")


@pytest.mark.parametrize("predicate", [True, False])
def test_both_branches_of_a_conditional_fit_its_type(*, predicate: bool) -> None:
    def build() -> None:
        value = matmul(x(), x("y"), "before")
        chosen = tf.cond(
            tf.constant(predicate), lambda: matmul(value, value, "then"), lambda: tf.nn.relu(value, name="else")
        )
        out(matmul(chosen, x("y"), "after"))

    result = checked(graph_of(build), FEEDS)
    node = call_node(result.graph_def, "StatelessIf")
    assert types_of(node)["Tout"] == ["float16"]
    assert [results for _, results in signatures(result.graph_def).values()] == [["float16"], ["float16"]]


@pytest.mark.parametrize("index", [0, 1, 2])
def test_every_branch_of_a_case_fits_its_type(index: int) -> None:
    def build() -> None:
        value = matmul(x(), x("y"), "before")
        chosen = tf.switch_case(
            tf.constant(index),
            [lambda: tf.nn.relu(matmul(value, value, "zero")), lambda: -value, lambda: -tf.exp(value, name="two")],
        )
        out(matmul(chosen, x("y"), "after"))

    result = checked(graph_of(build), FEEDS)
    assert {"before", "zero", "after"} <= low_nodes(result.graph_def)
    assert "two" not in low_nodes(result.graph_def)
    assert len({str(results) for _, results in signatures(result.graph_def).values()}) == 1


def test_calls_in_loops_in_calls() -> None:
    @tf.function(autograph=False)
    def step(value: Any, weights: Any) -> Any:
        return tf.nn.relu(matmul(value, weights, "m"))

    @tf.function(autograph=False)
    def outer(value: Any, weights: Any) -> Any:
        return tf.while_loop(lambda i, _: i < 2, lambda i, v: (i + 1, step(v, weights)), (0, value))[1]

    result = checked(graph_of(lambda: out(matmul(outer(x(), x("y")), x("y"), "last"))), FEEDS)
    assert {"m", "last"} <= low_nodes(result.graph_def)
    assert all(name.endswith("__float16") for name in signatures(result.graph_def))
    loop = next(node for f in result.graph_def.library.function for node in f.node_def if node.op == "StatelessWhile")
    assert types_of(loop)["T"].count("float16") == 2


def test_gradients_through_a_functional_loop_run() -> None:
    def build() -> None:
        weights = x("y")
        _, value = tf.while_loop(lambda i, _: i < 3, lambda i, v: (i + 1, tf.tanh(matmul(v, weights, "m"))), (0, x()))
        out(value)
        out(tf.gradients(value, weights)[0], "gradient_out")

    result = checked(graph_of(build), FEEDS, ["out", "gradient_out"], tolerance=3e-2)
    assert "m" in low_nodes(result.graph_def)


def test_a_function_that_calls_itself_is_rewritten_with_its_call() -> None:
    @tf.function(autograph=False)
    def halve(value: Any) -> Any:
        return matmul(tf.identity(matmul(value, 0.5 * tf.eye(2), "m")), tf.eye(2), "n")

    graph_def = graph_of(lambda: out(halve(x())))
    (function,) = graph_def.library.function
    inner = next(node for node in function.node_def if node.op == "Identity" and node.input[0].startswith("m:"))
    inner.op, inner.attr["f"].func.name = "PartitionedCall", function.signature.name
    inner.attr["Tin"].list.type[:] = inner.attr["Tout"].list.type[:] = [inner.attr.pop("T").type]
    next(node for node in function.node_def if node.name == "n").input[0] = f"{inner.name}:output:0"
    rewritten = rewrite_graph_def(
        graph_def, ["out"], policy=CPU
    ).graph_def  # TensorFlow itself cannot run such a function
    assert {"m", "n", inner.name} <= low_nodes(rewritten)
    twin = f"{function.signature.name}__float16"
    assert signatures(rewritten) == {twin: (["float16"], ["float16"])}
    assert find(rewritten, inner.name).attr["f"].func.name == twin


@pytest.mark.parametrize("other", ["denied", "fetched", "low"])
def test_a_body_shared_by_two_callers_fits_both(other: str) -> None:
    @tf.function(autograph=False)
    def shared(value: Any) -> Any:
        return tf.nn.relu(matmul(value, tf.eye(2), "inner"))

    def build() -> None:
        out(matmul(shared(matmul(x(), x("y"), "one")), x("y"), "last"))
        value = tf.exp(x()) if other == "denied" else matmul(x(), x("y"), "two")
        second = shared(value)
        out(tf.tanh(second) if other == "denied" else second, "out2")

    graph_def = graph_of(build)
    calls = [node.name for node in graph_def.node if node.op == "PartitionedCall"]
    fetches = ["out", calls[1]] if other == "fetched" else ["out", "out2"]
    result = checked(graph_def, FEEDS, fetches)
    one, two = (types_of(find(result.graph_def, name)) for name in calls)
    assert one == two
    assert {"inner", "one", "last"} <= low_nodes(result.graph_def)
    assert len(result.graph_def.library.function) == 1


def test_a_list_through_calls_and_loops_has_one_type() -> None:
    @tf.function(autograph=False)
    def write(handle: Any, index: Any, value: Any) -> Any:
        return raw.TensorListSetItem(input_handle=handle, index=index, item=value, name="put")

    def build() -> None:
        weights, start = x("y"), x()
        handle = raw.TensorListReserve(element_shape=[2, 2], num_elements=3, element_dtype=tf.float32, name="list")
        _, filled = tf.while_loop(
            lambda i, _: i < 3, lambda i, h: (i + 1, write(h, i, matmul(start, weights, "m"))), (0, handle)
        )
        rows = raw.TensorListStack(input_handle=filled, element_shape=[2, 2], element_dtype=tf.float32, name="rows")
        out(matmul(tf.reshape(rows, [6, 2]), weights, "last"))

    result = checked(graph_of(build), FEEDS)
    assert {"list", "put", "m", "rows", "last"} <= low_nodes(result.graph_def)


def test_a_tensor_array_in_a_functional_loop_goes_low() -> None:
    def build() -> None:
        weights, start = x("y"), x()
        array = tf.TensorArray(tf.float32, size=3, element_shape=[2, 2])
        _, filled = tf.while_loop(
            lambda i, _: i < 3, lambda i, a: (i + 1, a.write(i, matmul(start, weights, "m"))), (0, array)
        )
        out(matmul(filled.read(1), weights, "last"))

    result = checked(graph_of(build), FEEDS)
    lists = {node.op for node in result.graph_def.node if node.name in low_nodes(result.graph_def)}
    assert {"TensorListReserve", "TensorListGetItem"} <= lists


def test_a_function_called_by_its_name_as_an_op() -> None:
    @tf.function(autograph=False, input_signature=[MATRIX])
    def dense(value: Any) -> Any:
        return tf.nn.relu(matmul(value, tf.eye(2), "inner"))

    graph_def = graph_of(lambda: out(matmul(dense(matmul(x(), x("y"), "one")), x("y"), "last")))
    call = call_node(graph_def, "PartitionedCall")
    call.op = call.attr["f"].func.name
    call.attr.clear()
    result = checked(graph_def, FEEDS)
    assert find(result.graph_def, call.name).op == f"{call.op}__float16"
    assert signatures(result.graph_def) == {f"{call.op}__float16": (["float16"], ["float16"])}


def test_a_function_that_changes_gets_a_name_that_is_free() -> None:
    @tf.function(autograph=False)
    def dense(value: Any) -> Any:
        return matmul(value, tf.eye(2), "inner")

    graph_def = graph_of(lambda: out(dense(x())))
    name = call_node(graph_def, "PartitionedCall").attr["f"].func.name
    taken = graph_def.library.function.add()
    taken.CopyFrom(graph_def.library.function[0])
    taken.signature.name = f"{name}__float16"
    result = rewrite_graph_def(graph_def, ["out"], policy=CPU)
    assert set(signatures(result.graph_def)) == {f"{name}__float16", f"{name}__float16_1"}
    assert next(f for f in result.graph_def.library.function if f.signature.name == taken.signature.name) == taken
