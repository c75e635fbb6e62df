"""What happens to a loss and its gradients on the way through an optimizer: `scaled`, `unscaled`, `summable`."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from mixdown.tensorflow.loss_scaling.finite import replicas


def scaled(loss: Any, scale: tf.Tensor) -> Any:
    """The loss times the scale, in the dtype of the loss; of a callable, a callable."""
    if callable(loss):
        return lambda: scaled(loss(), scale)
    loss = tf.convert_to_tensor(loss)
    return loss * tf.cast(scale, loss.dtype)


def unscaled(gradient: Any, scale: tf.Tensor) -> Any:
    """The gradient divided by the scale, in its own dtype; None stays None."""
    if gradient is None:
        return None
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(unscaled(gradient.values, scale), gradient.indices, gradient.dense_shape)
    # Divided, not multiplied by 1/scale: 1/2**127 is subnormal and flushed to 0. In float32 at least: a scale
    # above 65504 is inf in float16.
    wide = tf.float64 if gradient.dtype == tf.float64 else tf.float32
    return tf.cast(tf.cast(gradient, wide) / tf.cast(scale, wide), gradient.dtype)


def concrete(gradient: Any) -> Any:
    """The gradient as a tensor or IndexedSlices; None stays None."""
    if gradient is None or isinstance(gradient, tf.IndexedSlices):
        return gradient
    return tf.convert_to_tensor(gradient)


def summable(gradients: Sequence[Any]) -> list[Any]:
    """The gradients to check: finite only if their sum over the replicas must be finite too.

    A v1 optimizer adds up the gradients of all replicas after the check, and finite numbers can add up to Inf.
    """
    count = replicas()
    return list(gradients) if count == 1 else [None if each is None else times(each, count) for each in gradients]


def times(gradient: Any, count: int) -> Any:
    """The gradient times a small number."""
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(gradient.values * count, gradient.indices, gradient.dense_shape)
    return gradient * count
