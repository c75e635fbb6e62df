"""Training steps with batch normalization as Keras 3 spells it out, with known weights and values."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

CHANNELS = 4
IMAGES = np.random.default_rng(0).normal(1.0, 2.0, (8, 8, 8, 3)).astype("float32")
KERNEL = np.random.default_rng(1).normal(0.0, 0.2, (3, 3, 3, CHANNELS)).astype("float32")


def model(*, shared: bool = False, **options: Any) -> Any:
    """Convolution, normalization, convolution; if `shared`, the first one's result is read around the second."""
    keras.utils.set_random_seed(1)
    image = keras.Input(IMAGES.shape[1:])
    convolved = keras.layers.Conv2D(CHANNELS, 3, use_bias=False, name="conv")(image)
    hidden = keras.layers.BatchNormalization(name="norm", **options)(convolved)
    hidden = keras.layers.ReLU()(hidden)
    hidden = keras.layers.Add()([hidden, convolved]) if shared else hidden
    hidden = keras.layers.Conv2D(CHANNELS, 3)(hidden)
    made = keras.Model(image, keras.layers.GlobalAveragePooling2D()(hidden))
    for layer in made.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            for number, vector in enumerate(layer.trainable_variables):
                vector.assign(np.linspace(0.5, 1.5, vector.shape[0]) + number)
    return made


def layered(shape: tuple[int, ...] = (8, 16), *, shared: bool = False, **options: Any) -> Any:
    """Dense, layer normalization, dense; if `shared`, the first one's result is read around the others."""
    keras.utils.set_random_seed(1)
    rows = keras.Input(shape)
    hidden = keras.layers.Dense(16, name="first")(rows)
    norm = keras.layers.LayerNormalization(name="norm", **options)
    made = keras.layers.Dense(16)(norm(hidden))
    made = keras.layers.Add()([made, hidden]) if shared else made
    for number, vector in enumerate(norm.trainable_variables):
        vector.assign(np.linspace(0.5, 1.5, vector.shape[-1]) * np.ones(vector.shape) + number)
    return keras.Model(rows, made)


def step(of: Any, *, batch: int | None = len(IMAGES), **options: Any) -> Any:
    """A function that returns a model's outputs and gradients, and updates its moving averages."""

    @tf.function(input_signature=[tf.TensorSpec((batch, *of.input_shape[1:]))], **options)
    def train(images: Any) -> Any:
        with tf.GradientTape() as tape:
            outputs = of(images, training=True)
            loss = tf.reduce_sum(outputs**2)
        return outputs, tape.gradient(loss, of.trainable_variables)

    return train


def moving(of: Any) -> list[Any]:
    """The moving averages of a model, taken back to where they began."""
    norm = of.get_layer("norm")
    found = [norm.moving_mean.numpy(), norm.moving_variance.numpy()]
    norm.moving_mean.assign(np.zeros(CHANNELS))
    norm.moving_variance.assign(np.ones(CHANNELS))
    return found


def spelled_out(
    after: Callable[[Any, dict[str, Any]], Any] = lambda _, __: (), *, dtype: str = "float32", **changes: Any
) -> Any:
    """A step with a normalization as Keras 3 writes it, by hand.

    Args:
        after: gets the tape and values of the normalization, and returns what the step returns besides.
        dtype: of all that is computed.
        changes: the `axes` that are normalized, the `width` of the scale, how much of the mean it has
            (`of_mean`), and the `offset_width`.
    """
    kernel = tf.Variable(KERNEL.astype(dtype))
    scale = tf.Variable(tf.ones(changes.get("width", CHANNELS), dtype))
    offset = tf.Variable(tf.zeros(changes.get("offset_width", CHANNELS), dtype))

    @tf.function(input_signature=[tf.TensorSpec(IMAGES.shape, dtype)])
    def train(images: Any) -> Any:
        with tf.GradientTape() as tape:
            x = tf.nn.conv2d(images, kernel, 1, "SAME")
            mean, variance = tf.nn.moments(x, changes.get("axes", (0, 1, 2)))
            weight = scale + changes["of_mean"] * tf.stop_gradient(mean) if "of_mean" in changes else scale
            y = tf.nn.batch_normalization(x, mean, variance, offset, weight, 1e-3)
            outputs = tf.nn.conv2d(tf.nn.relu(y), tf.ones((3, 3, CHANNELS, CHANNELS), dtype), 1, "SAME")
            loss = tf.reduce_sum(outputs**2)
        return outputs, tape.gradient(loss, [kernel, scale, offset]), after(tape, {"x": x, "mean": mean, "y": y})

    return train
