"""Compiles functions with XLA in a process of its own, so that XLA_FLAGS can make it write down what it compiles.

Argument: the policy's low dtype, or "float32" for none.
"""

import sys
from contextlib import nullcontext
from typing import Any

import numpy as np
import tensorflow as tf

import mixdown


@tf.function(jit_compile=True)
def product(x: Any) -> Any:
    return tf.matmul(x, x)


@tf.function(jit_compile=True)
def loop(x: Any) -> Any:
    return tf.while_loop(lambda i, _: i < 3, lambda i, a: (i + 1, tf.matmul(a, x)), (0, x))[1]


@tf.function(jit_compile=True)
def inner(x: Any) -> Any:
    return tf.nn.conv2d(x, tf.ones((3, 3, 1, 1)), 1, "SAME")


@tf.function
def outer(x: Any) -> Any:
    return inner(x) + 1.0


def main(low: str) -> None:
    block = nullcontext() if low == "float32" else mixdown.rewriting(mixdown.Policy(low=low, devices="all"))
    with block:
        product(tf.ones((4, 4)))
        loop(tf.ones((4, 4)))
        outer(tf.ones((1, 8, 8, 1)))
        fit()


def fit() -> None:
    import keras  # noqa: PLC0415 - after TensorFlow is set up

    model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(8)])
    model.compile("sgd", "mse", jit_compile=True)
    model.fit(np.ones((8, 16)), np.ones((8, 8)), batch_size=4, verbose=0)


if __name__ == "__main__":
    main(*sys.argv[1:])
