"""What random programs found, each as the smallest program that shows it."""

from typing import Any

import numpy as np
import tensorflow as tf

import mixdown
from mixdown.tensorflow.explaining.subjects import planned_graphs

X = tf.constant([[1.0, 2.0], [3.0, 4.0]])
LAYER = mixdown.Policy(devices="all").with_allow(scope="layer")


def test_a_variable_that_is_read_in_an_allowed_scope_keeps_its_dtype() -> None:
    weight = tf.Variable([[0.5, 0.25], [0.125, 1.0]])

    @tf.function
    def dense(x: Any) -> Any:
        with tf.name_scope("layer"):
            return tf.matmul(x, weight)

    before = dense(X)
    with mixdown.rewriting(LAYER):
        mixed = dense(X)
    np.testing.assert_allclose(mixed, before, rtol=2e-3)


def test_a_constant_in_an_allowed_scope_keeps_its_dtype() -> None:
    """TensorFlow aborts the process if a constant's value has another dtype than the constant."""

    @tf.function
    def shifted(x: Any) -> Any:
        with tf.name_scope("layer"):
            return tf.matmul(x, x) + tf.constant([0.5, 0.25])

    (planned,) = planned_graphs(shifted, LAYER, [X])
    constants = [node for proto in planned.protos for node in proto.node_def if node.op == "Const"]
    assert constants
    assert all(node.attr["dtype"].type == node.attr["value"].tensor.dtype for node in constants)
    before = shifted(X)
    with mixdown.rewriting(LAYER):
        mixed = shifted(X)
    np.testing.assert_allclose(mixed, before, rtol=2e-3)


def test_a_loop_does_not_round_what_stays_float32() -> None:
    weight = tf.constant([[0.5, 0.25], [0.125, 1.0]])

    @tf.function
    def carried(x: Any) -> Any:
        start = tf.matmul(x, weight)
        return tf.while_loop(lambda i, _: i < 2, lambda i, _: (i + 1, tf.abs(x)), (0, start))[1]

    x = tf.constant([[1.0 + 2**-15, 2.0], [3.0, -4.0]])
    policy = mixdown.Policy(devices="all", strategy="grappler", level="tensor_cores_only")
    with mixdown.rewriting(policy):
        mixed = carried(x)
    np.testing.assert_array_equal(mixed, tf.abs(x))


def test_a_branch_that_stays_float32_reads_what_was_handed_to_it_unrounded() -> None:
    weight = tf.constant([[0.5, 0.25], [0.125, 1.0]])

    @tf.function
    def chosen(x: Any, index: Any) -> Any:
        products = [lambda: tf.matmul(x, weight), lambda: tf.matmul(weight, x)]
        return tf.matmul(x, x), tf.switch_case(index, [*products, lambda: tf.exp(x)])

    x = tf.constant([[1.0 + 2**-15, 2.0], [3.0, -4.0]])
    with mixdown.rewriting(mixdown.Policy(devices="all")):
        _, mixed = chosen(x, tf.constant(2))
    np.testing.assert_array_equal(mixed, tf.exp(x))
