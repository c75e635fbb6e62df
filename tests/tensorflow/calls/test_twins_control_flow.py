"""Loops, branches and maps: what they carry, and the lists in which they keep values for the gradient, are low too."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tests.tensorflow.calls.twins_probe import ON_CPU, compared, executed

import mixdown

X = tf.constant([[1.0, 2.0], [3.0, 4.0]])
W = tf.constant([[0.5, 0.25], [0.125, 1.0]])
TENSORFLOWS = mixdown.Policy(devices="all", strategy="grappler")  # follows neighbours, whatever the sizes
LISTS = ("EmptyTensorList", "TensorListPushBack", "TensorListPopBack")


def looped(x: Any, weight: Any, times: int = 3) -> Any:
    step = lambda i, a: (i + 1, tf.nn.relu(tf.matmul(a, weight)))  # noqa: E731 - a loop body
    return tf.while_loop(lambda i, _: i < times, step, (tf.constant(0), x), maximum_iterations=times)[1]


@pytest.mark.parametrize("compiler", [False, True], ids=["executor", "xla"])
def test_a_loop_and_its_gradient_keep_their_values_in_float16(compiler: bool) -> None:  # noqa: FBT001 - a parameter
    weight = tf.Variable(W)

    @tf.function(jit_compile=compiler)
    def gradient(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(looped(x, weight))
        return tape.gradient(loss, weight)

    ran = compared(lambda: gradient(X))
    assert ran.all_low("MatMul", "Relu", *LISTS)


def test_a_list_that_crosses_the_call_boundary_stays_full_and_the_products_do_not() -> None:
    weight = tf.Variable(W)
    function = tf.function(lambda x: looped(x, weight))

    def gradient() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(function(X))
        return tape.gradient(loss, weight)

    ran = compared(gradient)
    assert ran.all_low("MatMul")
    assert ran.all_full(*LISTS)


def test_a_loop_carried_value_that_one_op_must_keep_full_is_full() -> None:
    step = lambda i, a: (i + 1, tf.matmul(tf.exp(-a), W))  # noqa: E731 - a loop body
    function = tf.function(lambda x: tf.while_loop(lambda i, _: i < 3, step, (0, x))[1])
    ran = compared(lambda: function(X))
    assert ran.all_low("MatMul")
    assert {node.kind for node in ran.nodes if node.dtype == "float16"} == {"MatMul", "Cast"}


def test_a_loop_that_sums_in_full_precision_does_not_drift() -> None:
    """1,000 times 1/3: a sum carried in float16 would stop growing at 256 / 3."""
    step = lambda i, total, x: (i + 1, total + tf.reduce_sum(tf.matmul(x, W)) / 30.0, x)  # noqa: E731 - a loop body
    function = tf.function(lambda x: tf.while_loop(lambda i, *_: i < 1000, step, (0, 0.0, x))[1])
    ran = compared(lambda: function(X), tolerance=1e-3)
    assert ran.all_low("MatMul")


def test_autograph_loops_with_break_and_continue() -> None:
    @tf.function
    def function(x: Any) -> Any:
        for i in tf.range(10):
            if i == 1:
                continue
            if tf.reduce_sum(x) > 1e3:
                break
            x = tf.nn.relu(tf.matmul(x, W))
        return x

    ran = compared(lambda: function(X))
    assert ran.all_low("MatMul", "Relu")


def test_autograph_loops_over_an_iterator() -> None:
    @tf.function
    def function(batches: Any) -> Any:
        total = tf.zeros((2, 2))
        for x in batches:
            total += tf.matmul(x, W)
        return total

    data = tf.data.Dataset.from_tensors(X).repeat(3)
    ran = compared(lambda: function(iter(data)))
    assert ran.all_low("MatMul")


def test_nested_loops() -> None:
    function = tf.function(lambda x: tf.while_loop(lambda i, _: i < 2, lambda i, a: (i + 1, looped(a, W)), (0, x))[1])
    ran = compared(lambda: function(X))
    assert ran.all_low("MatMul", "Relu")


def test_both_branches_of_a_cond_and_their_gradients() -> None:
    weight = tf.Variable(W)

    @tf.function
    def gradient(x: Any, flag: Any) -> Any:
        with tf.GradientTape() as tape:
            y = tf.cond(flag, lambda: tf.matmul(x, weight), lambda: tf.matmul(tf.nn.relu(x), weight) * 2.0)
            loss = tf.reduce_sum(tf.matmul(y, y))
        return tape.gradient(loss, weight)

    ran = compared(lambda: [gradient(X, tf.constant(flag)) for flag in (True, False)])
    assert ran.all_low("MatMul")


def test_every_branch_of_a_case() -> None:
    branches = [lambda x: tf.matmul(x, W), lambda x: tf.matmul(W, x), tf.identity]
    function = tf.function(lambda i, x: tf.switch_case(i, [lambda b=b: b(x) for b in branches]))
    ran = compared(lambda: [function(tf.constant(index), X) for index in range(3)])
    assert ran.dtypes("MatMul") == ["float16", "float16"]


def test_a_branch_that_gives_a_variable_stays_a_variable_of_float32() -> None:
    weight = tf.Variable(W)
    function = tf.function(lambda flag: tf.cond(flag, lambda: tf.matmul(weight, weight), lambda: weight + 0.0))
    ran = compared(lambda: function(tf.constant(True)))  # noqa: FBT003 - a tensor
    assert ran.all_low("MatMul")
    assert weight.dtype == tf.float32


@pytest.mark.parametrize(
    "mapped",
    [
        lambda x: tf.map_fn(lambda row: tf.linalg.matvec(W, row), x),
        lambda x: tf.scan(tf.matmul, tf.stack([x, x, x]), initializer=W),
        lambda x: tf.foldr(tf.matmul, tf.stack([x, x]), initializer=W),
        lambda x: tf.vectorized_map(lambda row: tf.matmul(row, W), tf.stack([x, x])),
    ],
    ids=["map_fn", "scan", "foldr", "vectorized_map"],
)
def test_maps_and_folds_with_their_lists(mapped: Any) -> None:
    function = tf.function(mapped)
    ran = compared(lambda: function(X), TENSORFLOWS)
    assert ran.all_low("MatMul")
    assert {node.dtype for node in ran.nodes if node.kind.startswith("TensorList")} <= {"float16"}


def test_a_tensor_array_that_is_returned_holds_float32() -> None:
    @tf.function
    def function(x: Any) -> Any:
        array = tf.TensorArray(tf.float32, 2, element_shape=(2, 2))
        return array.write(0, tf.matmul(x, W)).write(1, x).flow

    def stacked() -> Any:
        return tf.raw_ops.TensorListStack(input_handle=function(X), element_shape=(2, 2), element_dtype=tf.float32)

    ran = compared(stacked)
    assert ran.all_low("MatMul")
    assert ran.all_full("TensorListSetItem")


def test_a_variable_assigned_in_a_loop_is_updated_in_float32() -> None:
    weight = tf.Variable(W)

    @tf.function
    def train(x: Any) -> None:
        for _ in tf.range(3):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.matmul(x, weight))
            weight.assign_sub(2.0**-12 * tape.gradient(loss, weight))

    with mixdown.rewriting(ON_CPU):
        ran = executed(lambda: train(X))
    assert ran.all_low("MatMul")
    expected = W - 3 * 2.0**-12 * tf.matmul(X, tf.ones((2, 2)), transpose_a=True)
    np.testing.assert_array_equal(weight, expected)  # float16 could not hold these digits


def test_random_ops_draw_the_same_numbers() -> None:
    function = tf.function(lambda x: tf.matmul(tf.nn.experimental.stateless_dropout(x, 0.5, seed=(1, 2)), W))
    ran = compared(lambda: function(X))
    assert ran.all_low("MatMul")
