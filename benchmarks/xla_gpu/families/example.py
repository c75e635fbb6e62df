"""What a model of the corpus consists of: an untrained Keras 3 model, the shapes of one batch, and a loss."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

Loss = Callable[[Sequence[Any], Sequence[Any]], Any]
"""Outputs of the model in float32, targets -> one number."""


def cross_entropy(outputs: Sequence[Any], targets: Sequence[Any]) -> Any:
    """The mean cross-entropy of logits with class numbers."""
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(targets[0], outputs[0]))


def squared_error(outputs: Sequence[Any], targets: Sequence[Any]) -> Any:
    """The mean squared difference from the targets."""
    return tf.reduce_mean(tf.math.squared_difference(outputs[0], targets[0]))


def log_loss(outputs: Sequence[Any], targets: Sequence[Any]) -> Any:
    """The mean cross-entropy of one logit an example with the label 0 or 1."""
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(targets[0], outputs[0]))


@dataclass(frozen=True)
class Example:
    """A model, what it is given, what it is compared with, and how."""

    build: Callable[[], Any]
    inputs: tuple[tf.TensorSpec, ...]
    targets: tuple[tf.TensorSpec, ...]
    loss: Loss = cross_entropy


def numbers(*shape: int) -> tf.TensorSpec:
    """A batch of float32 numbers."""
    return tf.TensorSpec(shape, tf.float32)


def indices(*shape: int) -> tf.TensorSpec:
    """A batch of integers: tokens, classes or rows of a table."""
    return tf.TensorSpec(shape, tf.int32)
