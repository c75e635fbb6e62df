"""The verbs that take more than one TensorFlow op, as functions that work in any floating-point dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.reliability.fuzz_balls import Run


def widened(rows: Any) -> Any:
    """Rows as an image."""
    return tf.tile(tf.reshape(rows, [-1, 2, 2, 1]), [1, 2, 2, 2])


def reciprocal(x: Any) -> Any:
    """One over a number of at least 1."""
    return 1.0 / (tf.abs(x) + 1.0)


def batch_norm(*, training: bool) -> Callable[[Any], Any]:
    """Fused batch norm with a large epsilon, so that no division is by almost nothing."""

    def run(x: Any) -> Any:
        known = [] if training else [tf.constant([0.25, -0.5]), tf.constant([0.5, 2.0])]
        names = dict(zip(("mean", "variance"), known, strict=False))
        gain, offset = tf.ones([2]), tf.zeros([2])
        return tf.compat.v1.nn.fused_batch_norm(x, gain, offset, epsilon=1.0, is_training=training, **names)[0]

    return run


def normalised(x: Any) -> Any:
    """Batch norm by the statistics of the batch."""
    mean, variance = tf.nn.moments(x, [0, 1, 2])
    return (x - mean) * tf.math.rsqrt(variance + 1.0)


def shifted(x: Any) -> Any:
    """Batch norm by known statistics."""
    mean, variance = tf.constant([0.25, -0.5], x.dtype), tf.constant([0.5, 2.0], x.dtype)
    return (x - mean) / tf.sqrt(variance + 1.0)


def shifted_up(x: Any) -> Any:
    """The same with every minus sign made a plus."""
    mean, variance = tf.constant([0.25, 0.5], x.dtype), tf.constant([0.5, 2.0], x.dtype)
    return (x + mean) / tf.sqrt(variance + 1.0)


def cross_entropy(rows: Any, ints: Any) -> Any:
    """The cross entropy of rows with labels, summed up."""
    return tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=ints, logits=rows))


def dense_cross_entropy(rows: Any, ints: Any) -> Any:
    """The same, from labels as probabilities."""
    labels = tf.one_hot(ints, 4, dtype=rows.dtype)
    return tf.reduce_sum(tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=rows))


def pooled(run: Run) -> Run:
    """Pooling that keeps the size of an image."""
    return lambda x: run(x, 2, 1, "SAME")
