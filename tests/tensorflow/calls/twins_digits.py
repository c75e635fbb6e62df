"""A small convolutional network on scikit-learn's handwritten digits, in a precision of choice."""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

import mixdown

EPOCHS, BATCH, HELD_OUT = 8, 64, 597


@cache
def digits() -> tuple[Any, ...]:
    """Training images and labels, test images and labels, in one fixed shuffled order."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    images, labels = (images[order] / 16.0).reshape(-1, 8, 8, 1).astype("float32"), labels[order]
    return images[HELD_OUT:], labels[HELD_OUT:], images[:HELD_OUT], labels[:HELD_OUT]


def network(seed: int) -> Any:
    keras.utils.set_random_seed(seed)
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(16, 3, padding="same", use_bias=False),
            keras.layers.BatchNormalization(),
            keras.layers.ReLU(),
            keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(2),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10),
        ]
    )


def accuracy(low: str, seed: int, epochs: int = EPOCHS) -> float:
    """Test accuracy in percent after training in float32, or mixed with float16 or bfloat16."""
    train_images, train_labels, test_images, test_labels = digits()
    model = network(seed)
    mixed = low != "float32"
    optimizer = keras.optimizers.Adam(2e-3)
    model.compile(
        mixdown.LossScaleOptimizer(optimizer) if low == "float16" else optimizer,
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        jit_compile=False,
    )
    with mixdown.rewriting(mixdown.Policy(low=low, devices="all")) if mixed else nullcontext():
        model.fit(train_images, train_labels, batch_size=BATCH, epochs=epochs, verbose=0)
        result = model.evaluate(test_images, test_labels, batch_size=BATCH, verbose=0, return_dict=True)
    tf.keras.backend.clear_session()
    return 100.0 * float(result["accuracy"])
