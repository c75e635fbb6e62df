"""Gradients are derived from the float32 original, so every kind works; the ops they execute are low."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tests.tensorflow.calls.twins_probe import ON_CPU, compared

import mixdown

X = tf.constant([[1.0, 2.0], [3.0, 4.0]])
W = tf.constant([[0.5, 0.25], [0.125, 1.0]])


def network(x: Any, weight: Any) -> Any:
    return tf.reduce_sum(tf.matmul(tf.nn.relu(tf.matmul(x, weight)), weight))


@pytest.mark.parametrize("compiler", [False, True], ids=["executor", "xla"])
def test_tape_inside(compiler: bool) -> None:  # noqa: FBT001 - a parameter
    weight = tf.Variable(W)

    @tf.function(jit_compile=compiler)
    def gradient(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = network(x, weight)
        return tape.gradient(loss, weight)

    ran = compared(lambda: gradient(X))
    assert ran.all_low("MatMul", "Relu")
    assert len(ran.dtypes("MatMul")) >= 4


@pytest.mark.parametrize("compiler", [False, True], ids=["executor", "xla"])
def test_tape_outside(compiler: bool) -> None:  # noqa: FBT001 - a parameter
    weight = tf.Variable(W)
    function = tf.function(network, jit_compile=compiler)

    def gradient() -> Any:
        with tf.GradientTape() as tape:
            loss = function(X, weight)
        return tape.gradient(loss, weight)

    ran = compared(gradient)
    assert len(ran.functions) == 2  # forward and backward
    assert ran.all_low("MatMul", "Relu")
    assert len(ran.dtypes("MatMul")) == 6


def test_gradient_taken_after_the_block_of_a_forward_pass_inside_it() -> None:
    weight = tf.Variable(W)
    function = tf.function(network)
    with tf.GradientTape() as tape:
        expected = function(X, weight)
    expected = tape.gradient(expected, weight)
    with tf.GradientTape() as tape, mixdown.rewriting(ON_CPU):
        loss = function(X, weight)
    np.testing.assert_allclose(tape.gradient(loss, weight), expected, rtol=2e-2)


def test_second_order() -> None:
    weight = tf.Variable(W)
    function = tf.function(network)

    def second() -> Any:
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                loss = function(X, weight)
            gradient = inner.gradient(loss, weight)
        return outer.gradient(gradient, weight)

    ran = compared(second)
    assert ran.all_low("MatMul", "Relu")


def test_second_order_inside_one_function() -> None:
    weight = tf.Variable(W)

    @tf.function
    def second(x: Any) -> Any:
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                loss = tf.reduce_sum(tf.matmul(tf.matmul(x, weight), weight))
            gradient = inner.gradient(loss, weight)
        return outer.gradient(gradient, weight)

    ran = compared(lambda: second(X))
    assert ran.all_low("MatMul")


def test_forward_mode() -> None:
    function = tf.function(lambda x: tf.matmul(tf.nn.relu(tf.matmul(x, W)), x))

    def derivative() -> Any:
        with tf.autodiff.ForwardAccumulator(X, tf.ones_like(X)) as accumulator:
            y = function(X)
        return y, accumulator.jvp(y)

    ran = compared(derivative)
    assert ran.all_low("MatMul", "Relu")


@pytest.mark.parametrize("vectorize", [True, False], ids=["pfor", "while_loop"])
def test_jacobian(vectorize: bool) -> None:  # noqa: FBT001 - a parameter
    @tf.function
    def jacobian(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.matmul(tf.nn.relu(tf.matmul(x, W)), W)
        return tape.jacobian(y, x, experimental_use_pfor=vectorize)

    ran = compared(lambda: jacobian(X))
    products = [node for node in ran.nodes if node.kind in ("MatMul", "BatchMatMulV2")]
    assert products
    assert {node.dtype for node in products} == {"float16"}


def test_custom_gradient_inside_and_around() -> None:
    @tf.custom_gradient
    def own(x: Any) -> Any:
        return tf.matmul(x, W), lambda upstream: 3.0 * tf.matmul(upstream, W)

    function = tf.function(own)

    def around() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(X)
            loss = tf.reduce_sum(function(X))
        return tape.gradient(loss, X)

    @tf.function
    def inside() -> Any:
        return around()

    for call in (around, inside):
        ran = compared(call)
        assert ran.all_low("MatMul")


def test_recomputed_activations() -> None:
    weight = tf.Variable(W)
    block = tf.recompute_grad(lambda x: network(x, weight))

    @tf.function
    def gradient(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = block(x)
        return tape.gradient(loss, weight)

    ran = compared(lambda: gradient(X))
    assert ran.all_low("MatMul", "Relu")


def test_gradient_with_respect_to_intermediates_and_unconnected_ones() -> None:
    @tf.function
    def gradients(x: Any, unused: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, unused])
            hidden = tf.nn.relu(tf.matmul(x, W))
            loss = tf.reduce_sum(tf.matmul(hidden, W))
        return tape.gradient(loss, [x, hidden, unused], unconnected_gradients="zero")

    ran = compared(lambda: gradients(X, X))
    assert ran.all_low("MatMul", "Relu")
