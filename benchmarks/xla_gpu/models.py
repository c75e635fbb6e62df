"""The models that are compiled, and one training step for all of them. Start with MODELS.

The step is a pure function of tensors, like a compiled program: it takes weights, statistics and momenta and returns
the new ones. All variants of a model (a Keras dtype policy, a rewrite) use the same step.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf
from keras import layers

CLASSES = 1000
LEARNING_RATE, MOMENTUM = 0.01, 0.9


@dataclass(frozen=True)
class Example:
    """A Keras 3 model and the shapes of a batch of inputs and labels; the output has one more dimension than labels."""

    build: Callable[[], Any]
    batch: tuple[int, ...]
    labels: tuple[int, ...]


def mlp() -> Any:
    """Three dense layers."""
    hidden = [layers.Dense(4096, activation="relu") for _ in range(2)]
    return keras.Sequential([keras.Input((1024,)), *hidden, layers.Dense(CLASSES)])


def convolutions() -> Any:
    """Three convolutions, each with batch normalisation and ReLU."""
    stack: list[Any] = [keras.Input((56, 56, 64))]
    for filters in (64, 64, 128):
        stack.append(layers.Conv2D(filters, 3, padding="same", use_bias=False))
        stack += [layers.BatchNormalization(), layers.ReLU()]
    return keras.Sequential([*stack, layers.GlobalAveragePooling2D(), layers.Dense(CLASSES)])


def resnet50() -> Any:
    """ResNet50 as Keras has it, without the final softmax."""
    return keras.applications.ResNet50(
        weights=None, input_shape=(224, 224, 3), classes=CLASSES, classifier_activation=None
    )


def transformer(blocks: int = 4, width: int = 512, length: int = 128) -> Any:
    """Pre-norm transformer blocks with eight heads and GELU, and a head that classifies every position."""
    start = keras.Input((length, width))
    hidden = layers.Dense(width)(start)  # so that the values between the blocks have the dtype of the policy
    for _ in range(blocks):
        normal = layers.LayerNormalization()(hidden)
        hidden = hidden + layers.MultiHeadAttention(8, width // 8)(normal, normal)
        normal = layers.LayerNormalization()(hidden)
        hidden = hidden + layers.Dense(width)(layers.Dense(4 * width, activation="gelu")(normal))
    return keras.Model(start, layers.Dense(CLASSES)(layers.LayerNormalization()(hidden)))


MODELS = {
    "MLP": Example(mlp, (256, 1024), (256,)),
    "conv+BN": Example(convolutions, (64, 56, 56, 64), (64,)),
    "transformer": Example(transformer, (32, 128, 512), (32, 128)),
    "ResNet50": Example(resnet50, (32, 224, 224, 3), (32,)),
}


def training_step(model: Any, scale: float) -> Callable[..., list[Any]]:
    """One step of SGD with momentum, with the loss multiplied by a fixed scale, as a function of tensors."""
    weights, others = len(model.trainable_variables), len(model.non_trainable_variables)

    def step(*tensors: Any) -> list[Any]:
        *state, features, labels = tensors
        values, kept = list(state[:weights]), list(state[weights : weights + others])
        with tf.GradientTape() as tape:
            tape.watch(values)
            logits, kept = model.stateless_call(values, kept, features, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, tf.cast(logits, tf.float32))
            loss = tf.reduce_mean(losses)
            scaled = loss * scale
        gradients = tape.gradient(scaled, values)
        momenta = [
            MOMENTUM * momentum + gradient * (1 / scale)
            for momentum, gradient in zip(state[weights + others :], gradients, strict=True)
        ]
        updated = [value - LEARNING_RATE * momentum for value, momentum in zip(values, momenta, strict=True)]
        return [*updated, *kept, *momenta, loss]

    return step


def signature(model: Any, example: Example) -> Sequence[tf.TensorSpec]:
    """The arguments of the step: weights, other variables, momenta, inputs, labels."""
    variables = (*model.trainable_variables, *model.non_trainable_variables, *model.trainable_variables)
    specs = [tf.TensorSpec(variable.shape, variable.dtype) for variable in variables]
    return [*specs, tf.TensorSpec(example.batch, tf.float32), tf.TensorSpec(example.labels, tf.int32)]
