"""Loops of TensorFlow 1 and tensor lists: all that carries one value has one type, and the loop still runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
    loops_of_tensorflow_1,
    low_nodes,
    matmul,
    out,
    raw,
    types_of,
    v1,
    x,
)

from mixdown import rewrite_graph_def
from mixdown.errors import GraphError

if TYPE_CHECKING:
    from collections.abc import Callable

policies = pytest.mark.parametrize("policy", [CPU, BFLOAT16], ids=lambda policy: policy.low)


def loop(body: Callable[[Any], Any], *, times: int = 3) -> Any:
    """Build a TensorFlow 1 loop around a body and return its result."""
    x("y")  # outside the loop
    with loops_of_tensorflow_1():
        counted = tf.while_loop(lambda i, _: i < times, lambda i, value: (i + 1, body(value)), (0, x()), name="loop")
    return counted[1]


def kinds(graph_def: Any, kind: str) -> list[set[str]]:
    """The types of the float nodes of a kind."""
    types = [set(types_of(node).values()) for node in graph_def.node if node.op == kind]
    return [found for found in types if found != {"int32"}]


@policies
def test_a_loop_around_a_matmul_carries_16_bits(policy: Any) -> None:
    graph_def = graph_of(lambda: out(loop(lambda value: tf.nn.relu(matmul(value, x("y"), "m")))))
    result = checked(graph_def, {"x": ONES, "y": EYE / 2}, policy=policy)
    for kind in ("Merge", "NextIteration", "Switch", "Exit"):
        assert kinds(result.graph_def, kind) == [{policy.low}], kind
    assert result.run.low(of="/m")


def test_a_denied_op_in_a_loop_keeps_the_carried_value_full() -> None:
    def build() -> None:
        entered = tf.nn.relu(matmul(x(), x("y"), "before"))
        with loops_of_tensorflow_1():
            _, value = tf.while_loop(
                lambda i, _: i < 3, lambda i, v: (i + 1, tf.exp(tf.tanh(v)) * 0.1), (0, entered), name="loop"
            )
        out(matmul(value, x("y"), "after"))

    result = checked(graph_of(build), {"x": ONES, "y": EYE / 2})
    assert kinds(result.graph_def, "Merge") == kinds(result.graph_def, "NextIteration") == [{"float32"}]
    assert kinds(result.graph_def, "Enter") == kinds(result.graph_def, "Exit") == [{"float16"}]


def test_two_loop_values_that_change_places_agree() -> None:
    def build() -> None:
        with loops_of_tensorflow_1():
            _, a, b = tf.while_loop(
                lambda i, *_: i < 3,
                lambda i, a, b: (i + 1, matmul(b, x("y"), "m"), tf.nn.relu(a)),
                (0, x(), x("y")),
                name="loop",
            )
        out(a)
        out(b, "out2")

    result = checked(graph_of(build), {"x": ONES, "y": EYE / 2}, ["out", "out2"])
    assert kinds(result.graph_def, "Merge") == [{"float16"}, {"float16"}]


def test_nested_loops_and_their_gradients_run() -> None:
    def build() -> None:
        x(), x("y")
        with loops_of_tensorflow_1():
            inner = lambda value: tf.while_loop(  # noqa: E731 - a body in a body
                lambda i, _: i < 2, lambda i, v: (i + 1, tf.tanh(matmul(v, x("y"), "m"))), (0, value), name="inner"
            )[1]
            result = tf.while_loop(lambda i, _: i < 2, lambda i, v: (i + 1, inner(v)), (0, x()), name="outer")[1]
            (gradient,) = tf.gradients(result, x("y"))
        out(result)
        out(gradient, "gradient_out")

    result = checked(graph_of(build), {"x": ONES, "y": EYE / 2}, ["out", "gradient_out"], tolerance=3e-2)
    assert result.run.low(of="inner/m")
    assert result.run.low(of="MatMul")  # of the gradient


def test_a_loop_trains_a_reference_variable() -> None:
    def build() -> None:
        x()
        with loops_of_tensorflow_1():
            variable = v1.get_variable("v", initializer=EYE, use_resource=False)

            def body(i: Any) -> Any:
                product = matmul(x(), variable, "m")
                with tf.control_dependencies([variable.assign_sub(0.1 * product)]):
                    return i + 1

            (last,) = tf.while_loop(lambda i: i < 2, body, (0,), name="loop")
            v1.global_variables_initializer()
        with tf.control_dependencies([last]):
            out(variable.read_value())

    result = checked(graph_of(build), {"x": ONES}, init="init")
    assert result.run.low(of="loop/m")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda node: node.attr["_grappler_do_not_remove"].CopyFrom(v1.AttrValue(b=True)), "mark"),
        (lambda node: setattr(node, "device", "/device:GPU:0"), "device"),
    ],
    ids=["marked", "on another device"],
)
def test_a_next_iteration_that_must_keep_its_type_keeps_the_loop_full(change: Any, reason: str) -> None:
    graph_def = graph_of(lambda: out(loop(lambda value: matmul(value, x("y"), "m"))))
    change(next(node for node in graph_def.node if node.op == "NextIteration" and types_of(node)["T"] == "float32"))
    rewritten = rewrite_graph_def(graph_def, ["out"], policy=CPU).graph_def
    assert kinds(rewritten, "Merge") == kinds(rewritten, "NextIteration") == [{"float32"}], reason
    assert "loop/m" in low_nodes(rewritten)


@pytest.mark.parametrize("change", ["with_keep", "with_deny"])
def test_a_next_iteration_can_be_kept_or_denied(change: str) -> None:
    graph_def = graph_of(lambda: out(loop(lambda value: matmul(value, x("y"), "m"))))
    result = checked(graph_def, {"x": ONES, "y": EYE}, policy=getattr(CPU, change)("NextIteration"))
    assert kinds(result.graph_def, "Merge") == kinds(result.graph_def, "NextIteration") == [{"float32"}]


def test_a_next_iteration_may_feed_nothing_but_a_merge() -> None:
    graph_def = graph_of(lambda: out(loop(lambda value: matmul(value, x("y"), "m"))))
    recurrent = next(n.name for n in graph_def.node if n.op == "NextIteration" and types_of(n)["T"] == "float32")
    find(graph_def, "out").input[0] = recurrent
    with pytest.raises(GraphError, match=rf"The NextIteration '{recurrent}' feeds 'out' \(Identity\): it may feed"):
        rewrite_graph_def(graph_def, [], policy=CPU)


def new_list(count: int = 2) -> Any:
    return raw.TensorListReserve(element_shape=[2, 2], num_elements=count, element_dtype=tf.float32, name="list")


def put(handle: Any, index: int, value: Any, name: str) -> Any:
    return raw.TensorListSetItem(input_handle=handle, index=index, item=value, name=name)


def take(handle: Any, index: int, name: str) -> Any:
    return raw.TensorListGetItem(
        input_handle=handle, index=index, element_shape=[2, 2], element_dtype=tf.float32, name=name
    )


@policies
def test_all_ops_on_one_list_go_low_together(policy: Any) -> None:
    def build() -> None:
        first = put(new_list(), 0, matmul(x(), x("y"), "m"), "put0")
        both = raw.Identity(input=put(first, 1, x("y"), "put1"), name="handle")
        out(matmul(take(both, 0, "take0"), take(both, 1, "take1"), "last"))

    result = checked(graph_of(build), {"x": ONES, "y": EYE}, policy=policy)
    assert low_nodes(result.graph_def) == {"m", "list", "put0", "put1", "take0", "take1", "last"}


def test_one_denied_write_keeps_the_whole_list_full() -> None:
    def build() -> None:
        first = put(new_list(), 0, tf.exp(x()), "put0")
        both = put(first, 1, x("y"), "put1")
        out(matmul(tf.tanh(take(both, 0, "take0")), take(both, 1, "take1"), "last"))

    result = checked(graph_of(build), {"x": ONES, "y": EYE})
    assert low_nodes(result.graph_def) == {"last"}
    assert "`put0`" in result.plan.why("list")


def test_lists_that_never_meet_are_decided_apart() -> None:
    def build() -> None:
        one = put(new_list(1), 0, matmul(x(), x("y"), "m"), "put0")
        other = put(
            raw.EmptyTensorList(element_shape=[2, 2], max_num_elements=1, element_dtype=tf.float32), 0, x(), "p"
        )
        out(matmul(take(one, 0, "take0"), x("y"), "last"))
        out(raw.TensorListLength(input_handle=other), "out2")

    graph_def = graph_of(build)
    rewritten = rewrite_graph_def(graph_def, ["out", "out2"], policy=CPU).graph_def
    assert low_nodes(rewritten) == {"m", "list", "put0", "take0", "last"}


def test_a_list_that_is_fetched_stays_full() -> None:
    def build() -> None:
        handle = put(new_list(1), 0, matmul(x(), x("y"), "m"), "put0")
        raw.Identity(input=handle, name="escaped")
        out(matmul(take(handle, 0, "take0"), x("y"), "last"))

    graph_def = graph_of(build)
    result = rewrite_graph_def(graph_def, ["out", "escaped"], policy=CPU)
    assert low_nodes(result.graph_def) == {"m", "last"}


@pytest.mark.parametrize(
    ("leave", "why"),
    [
        (
            lambda handle: raw.OptionalFromValue(components=[handle], name="leave"),
            "handled by `leave` (OptionalFromValue)",
        ),
        (
            lambda handle: raw.TensorListPushBack(
                input_handle=raw.EmptyTensorList(element_shape=-1, max_num_elements=1, element_dtype=tf.variant),
                tensor=handle,
                name="leave",
            ),
            "is an element of another list, at `leave`",
        ),
    ],
    ids=["stored in an optional", "stored in a list"],
)
def test_a_list_whose_handle_is_stored_away_stays_full(leave: Any, why: str) -> None:
    def build() -> None:
        handle = put(new_list(1), 0, matmul(x(), x("y"), "m"), "put0")
        leave(handle)
        out(matmul(take(handle, 0, "take0"), x("y"), "last"))

    result = checked(graph_of(build), {"x": ONES, "y": EYE})
    assert low_nodes(result.graph_def) == {"m", "last"}
    assert why in result.plan.why("put0")


def test_lists_joined_by_other_ops_are_one() -> None:
    def build() -> None:
        one = raw.TensorListFromTensor(tensor=matmul(x(), x("y"), "m"), element_shape=[2], name="one")
        two = raw.TensorListFromTensor(tensor=x("z"), element_shape=[2], name="two")
        packed = raw.Pack(values=[one, two], name="pack")
        first, second = raw.Unpack(value=packed, num=2)
        joined = raw.TensorListConcatLists(input_a=first, input_b=second, element_dtype=tf.float32, name="joined")
        rows = raw.TensorListStack(input_handle=joined, element_shape=[2], element_dtype=tf.float32, name="rows")
        out(matmul(rows, x("y"), "last"))

    result = checked(graph_of(build), {"x": ONES, "y": EYE, "z": 5 * ONES + EYE})
    assert low_nodes(result.graph_def) == {"m", "one", "two", "joined", "rows", "last"}


def test_a_kept_list_op_keeps_its_list_full() -> None:
    def build() -> None:
        handle = put(new_list(1), 0, matmul(x(), x("y"), "m"), "put0")
        out(matmul(take(handle, 0, "take0"), x("y"), "last"))

    result = checked(graph_of(build), {"x": ONES, "y": EYE}, policy=CPU.with_keep(name="^put0$"))
    assert low_nodes(result.graph_def) == {"m", "last"}


def test_a_list_goes_round_a_loop_of_tensorflow_1() -> None:
    def build() -> None:
        x(), x("y")
        with loops_of_tensorflow_1():
            _, filled = tf.while_loop(
                lambda i, _: i < 2,
                lambda i, handle: (i + 1, put(handle, i, matmul(x(), x("y"), "m"), "put")),
                (0, new_list()),
                name="loop",
            )
        out(matmul(take(filled, 1, "take"), x("y"), "last"))

    result = checked(graph_of(build), {"x": ONES, "y": EYE})
    assert low_nodes(result.graph_def) >= {"list", "loop/put", "loop/m", "take", "last"}
