"""Weight updates keep float32's digits: with tiny gradients, TensorFlow's own plan loses most of the update."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import mixdown
from mixdown import Policy

SCALE = 2.0**15
SIZE, ROWS = 64, 128
GRADIENT = 2.6e-7
"""About the root mean square of the gradients, without loss scaling far below what float16 can hold."""

OPTIMAL = Policy(devices="all")
THEIRS = Policy(devices="all", rules="tf-2.21", strategy="grappler")


def start() -> list[Any]:
    dice = np.random.default_rng(0)
    return [dice.normal(0, 0.05, (SIZE, SIZE)).astype("float32") for _ in range(2)]


def update(optimizer: str) -> tuple[Any, float]:
    """What one step of a two-layer network adds to its first weights, and the size of their gradient."""
    dice = np.random.default_rng(1)
    weights = [tf.Variable(value) for value in start()]
    means, squares = ([tf.Variable(tf.zeros_like(w)) for w in weights] for _ in range(2))
    x = tf.constant(dice.normal(0, 1, (ROWS, SIZE)), tf.float32)
    slope = tf.constant(dice.normal(0, GRADIENT / 3, (ROWS, SIZE)), tf.float32)

    @tf.function
    def step(x: tf.Tensor, slope: tf.Tensor) -> tf.Tensor:
        y = tf.matmul(tf.nn.relu(tf.matmul(x, weights[0])), weights[1])
        gradients = tf.gradients(tf.reduce_sum(y * slope) * SCALE, weights)
        unscaled = [gradient * (1 / SCALE) for gradient in gradients]
        for gradient, weight, mean, square in zip(unscaled, weights, means, squares, strict=True):
            if optimizer == "sgd":
                weight.assign_sub(0.1 * gradient)
            else:
                mean.assign_add((gradient - mean) * 0.1)
                square.assign_add((tf.square(gradient) - square) * 0.001)
                weight.assign_sub(0.01 * (mean / 0.1) / (tf.sqrt(square / 0.001) + 1e-7))
        return unscaled[0]

    gradient = step(x, slope)
    return weights[0].numpy() - start()[0], float(tf.sqrt(tf.reduce_mean(gradient**2)))


def error(optimizer: str, policy: Policy) -> float:
    """How far the update is off float32's, relative to it."""
    exact, size = update(optimizer)
    assert 2e-7 < size < 4e-7, "the case is no longer the one that was meant"
    with mixdown.rewriting(policy):
        found = update(optimizer)[0]
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


@pytest.mark.parametrize(("optimizer", "most"), [("sgd", 0.02), ("adam", 0.005)])
def test_a_tiny_update_keeps_its_digits(optimizer: str, most: float) -> None:
    assert 0 < error(optimizer, OPTIMAL) < most


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_tensorflows_own_plan_loses_most_of_it(optimizer: str) -> None:
    assert error(optimizer, THEIRS) > 0.5
