"""The loss scaler's own arithmetic, traced into a function that is rewritten, keeps float32's range."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import mixdown
from mixdown import Policy


@pytest.mark.parametrize("strategy", ["optimal", "grappler"])
@pytest.mark.parametrize("compiled", [False, True], ids=["executor", "xla"])
def test_a_scale_beyond_float16_is_halved_and_stays_finite(strategy: str, compiled: bool) -> None:  # noqa: FBT001 - a parameter
    optimizer = mixdown.LossScaleOptimizer(keras.optimizers.SGD(0.1), mixdown.DynamicLossScale(2.0**20))
    variable = keras.Variable(np.ones([4, 4], "float32"))
    optimizer.build([variable])

    @tf.function(jit_compile=compiled)
    def step(x: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            loss = optimizer.scale_loss(tf.reduce_sum(tf.matmul(variable.value, x)))
        optimizer.apply(tape.gradient(loss, [variable.value]), [variable])

    with mixdown.rewriting(Policy(devices="all", strategy=strategy)):
        step(tf.fill([4, 4], np.float32("nan")))
    assert float(optimizer.dynamic_scale.value) == 2.0**19
    assert (variable.numpy() == 1).all()


def test_labels_beyond_2048_are_still_told_apart() -> None:
    @tf.function
    def accuracy(labels: tf.Tensor, found: tf.Tensor) -> tf.Tensor:
        tf.matmul(tf.ones((2, 2)), tf.ones((2, 2)))
        return tf.reduce_mean(tf.cast(tf.equal(tf.cast(labels, tf.float32), tf.cast(found, tf.float32)), tf.float32))

    with mixdown.rewriting(Policy(devices="all")):
        assert float(accuracy(tf.range(4001, 4101), tf.range(4000, 4100))) == 0
