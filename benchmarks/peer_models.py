"""The models for the comparison with peers, and scikit-learn's digits as training data. Start with `MODELS`.

Every model takes the 8 by 8 pixels of a digit as a vector of 64 numbers and returns ten logits.
"""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from sklearn.datasets import load_digits

layers = keras.layers

SEEDS = (1, 2, 3)
BATCH = 32
TEST = 360


def mlp(x: Any) -> Any:
    """Three dense layers."""
    for _ in range(2):
        x = layers.Dense(128, "relu")(x)
    return x


def cnn(x: Any) -> Any:
    """Two convolutions with batch norm."""
    x = layers.Reshape([8, 8, 1])(x)
    for channels in (16, 32):
        x = layers.Conv2D(channels, 3, padding="same", use_bias=False)(x)
        x = layers.Activation("relu")(layers.BatchNormalization(momentum=0.8)(x))
    return layers.GlobalAveragePooling2D()(x)


def lstm(x: Any) -> Any:
    """An LSTM that reads a digit row by row, unrolled."""
    return layers.LSTM(64, unroll=True)(layers.Reshape([8, 8])(x))


def transformer(x: Any) -> Any:
    """One pre-norm block of attention and a feed-forward network over the eight rows."""
    x = layers.Dense(32)(layers.Reshape([8, 8])(x))
    normal = layers.LayerNormalization()(x)
    x = layers.Add()([x, layers.MultiHeadAttention(2, 16)(normal, normal)])
    hidden = layers.Dense(64, "gelu")(layers.LayerNormalization()(x))
    return layers.GlobalAveragePooling1D()(layers.Add()([x, layers.Dense(32)(hidden)]))


def embedding(x: Any) -> Any:
    """Pairs of neighbouring pixels as words, 17 * 17 for each of 64 positions: a batch reads few rows of the table."""
    return layers.Dense(64, "relu")(layers.Flatten()(layers.Embedding(17 * 17 * 64, 16)(Words(dtype="float32")(x))))


class Words(keras.layers.Layer):
    """Computes the number of the word at each position."""

    def call(self, pixels: Any) -> Any:
        """Combine each pixel with its neighbour and its position."""
        brightness = keras.ops.cast(pixels * 16.0, "int32")
        neighbour = keras.ops.roll(brightness, -1, axis=1)
        return brightness + 17 * neighbour + 17 * 17 * keras.ops.arange(64, dtype="int32")


MODELS: dict[str, Callable[[Any], Any]] = {
    "MLP": mlp,
    "CNN with batch norm": cnn,
    "LSTM": lstm,
    "transformer block": transformer,
    "embedding": embedding,
}


def build(name: str, seed: int = 1) -> Any:
    """A new model with weights that depend on the seed only; its logits are float32, as Keras's guide recommends."""
    keras.utils.set_random_seed(seed)
    inputs = keras.Input([64])
    return keras.Model(inputs, layers.Dense(10, dtype="float32")(MODELS[name](inputs)))


def digits() -> tuple[Any, Any, Any, Any]:
    """Pixels from 0 to 1 and labels: of the training set, then of the test set."""
    data = load_digits()
    x, y = (data.data / 16.0).astype("float32"), data.target.astype("int32")
    order = np.random.default_rng(SEEDS[0]).permutation(len(x))
    x, y = x[order], y[order]
    return x[TEST:], y[TEST:], x[:TEST], y[:TEST]


def loss_of(model: Any, x: Any, y: Any) -> Any:
    """The mean cross-entropy of a batch."""
    each = keras.ops.sparse_categorical_crossentropy(y, model(x, training=True), from_logits=True)
    return keras.ops.mean(each)
