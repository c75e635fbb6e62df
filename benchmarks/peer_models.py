"""The models for the comparison with peers, and the pictures they learn. Start with `MODELS` and `data`.

Every model takes the pixels of a square picture as a vector and returns ten logits.
"""

import gzip
from collections.abc import Callable
from math import isqrt
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
from sklearn.datasets import load_digits

layers = keras.layers

BATCH, SIDE = 32, 8
FASHION = Path("/usr/share/datasets/fashion-mnist")
"""Where Debian's package dataset-fashion-mnist puts its files."""


class Pictures(NamedTuple):
    """Pixels from 0 to 1 and labels: of the training set, then of the test set."""

    x: Any
    y: Any
    test_x: Any
    test_y: Any


def mlp(x: Any) -> Any:
    """Three dense layers."""
    for _ in range(2):
        x = layers.Dense(128, "relu")(x)
    return x


def cnn(x: Any) -> Any:
    """Two convolutions with batch norm; larger pictures are halved by each."""
    side = isqrt(x.shape[-1])
    x = layers.Reshape([side, side, 1])(x)
    for channels in (16, 32):
        x = layers.Conv2D(channels, 3, 1 if side == SIDE else 2, padding="same", use_bias=False)(x)
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


LEARNED = {"digits": tuple(MODELS), "Fashion-MNIST": ("MLP", "CNN with batch norm")}
"""The models that learn each set of pictures; the others are made for 8 by 8 pixels."""


def build(name: str, seed: int = 1, pixels: int = SIDE**2) -> Any:
    """A new model with weights that depend on the seed only; its logits are float32, as Keras's guide recommends."""
    keras.utils.set_random_seed(seed)
    inputs = keras.Input([pixels])
    return keras.Model(inputs, layers.Dense(10, dtype="float32")(MODELS[name](inputs)))


def data() -> dict[str, Pictures]:
    """The sets of pictures that this machine has."""
    return {"digits": digits()} | ({"Fashion-MNIST": fashion()} if FASHION.exists() else {})


def digits() -> Pictures:
    """scikit-learn's digits, 8 by 8 pixels; the test set is a third of them."""
    found = load_digits()
    x, y = (found.data / 16.0).astype("float32"), found.target.astype("int32")
    order = np.random.default_rng(1).permutation(len(x))
    test, train = np.split(order, [len(x) // 3])
    return Pictures(x[train], y[train], x[test], y[test])


def fashion() -> Pictures:
    """A tenth of Fashion-MNIST's training set and its whole test set, at half size: 14 by 14 pixels."""
    x, y = _fashion("train")
    return Pictures(x[::10], y[::10], *_fashion("t10k"))


def _fashion(part: str) -> tuple[Any, Any]:
    read = {
        kind: np.frombuffer(gzip.decompress((FASHION / f"{part}-{kind}-ubyte.gz").read_bytes()), "uint8", offset=head)
        for kind, head in (("images-idx3", 16), ("labels-idx1", 8))
    }
    blocks = read["images-idx3"].reshape(-1, 14, 2, 14, 2).mean((2, 4)) / 255.0
    return blocks.reshape(-1, 14 * 14).astype("float32"), read["labels-idx1"].astype("int32")


def loss_of(model: Any, x: Any, y: Any) -> Any:
    """The mean cross-entropy of a batch."""
    each = keras.ops.sparse_categorical_crossentropy(y, model(x, training=True), from_logits=True)
    return keras.ops.mean(each)
