"""One training run of a program, in float32 or mixed, compiled or not: `Run`, which every program gets."""

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

import mixdown

STEPS = 12
BATCH = 8


@dataclass(frozen=True)
class Run:
    """What a run is like; a program builds its model, and trains it with the methods below.

    Args:
        keras: Keras 3 or tf_keras, as the environment has it.
        policy: what runs in 16 bits; None for float32.
        compiled: whether XLA compiles the step.
        seed: of the weights and of all that is random while training. Data is the same for all seeds.
    """

    keras: Any
    policy: mixdown.Policy | None
    compiled: bool
    seed: int
    data: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    optimizers: list[Any] = field(default_factory=list)  # those of a mixed run, which count the steps they skip

    def optimizer(self, optimizer: Any) -> Any:
        """The optimizer as the user of mixdown has it: wrapped by the one line if the run is mixed."""
        if self.policy is None:
            return optimizer
        wrapped = mixdown.enable_mixed_precision_graph_rewrite(optimizer, policy=self.policy)
        self.optimizers.append(wrapped)
        return wrapped

    def rewriting(self) -> AbstractContextManager[None]:
        """For programs without an optimizer: a block in which functions are rewritten if the run is mixed."""
        return nullcontext() if self.policy is None else mixdown.rewriting(self.policy)

    def fit(self, model: Any, x: Any, y: Any, loss: Any, learning_rate: float = 1e-3) -> list[float]:
        """Train a Keras model on one batch, by `compile` and `fit`; returns the loss before every step."""
        adam = self.optimizer(self.keras.optimizers.Adam(learning_rate))
        model.compile(optimizer=adam, loss=loss, jit_compile=self.compiled)
        history = model.fit(x, y, batch_size=BATCH, epochs=STEPS, shuffle=False, verbose=0)
        return [float(each) for each in history.history["loss"]]

    def repeat(self, step: Callable[[], Any]) -> list[float]:
        """Call a step, as a tf.function, again and again; returns the losses that it returns."""
        function = tf.function(step, jit_compile=self.compiled)
        return [float(function()) for _ in range(STEPS)]

    def train(self, loss: Callable[[], Any], variables: Callable[[], Sequence[Any]], rate: float = 1e-3) -> list[float]:
        """Train by a loop of one's own; the variables are asked for after the first loss was computed."""
        loss()  # builds the model, outside of the function
        adam = self.optimizer(self.keras.optimizers.Adam(rate))
        weights = list(variables())
        adam.build(weights)
        return self.repeat(lambda: descend(adam, loss, weights))

    def tokens(self, vocabulary: int, length: int = 32) -> np.ndarray[Any, Any]:
        """A batch of sequences of numbers below `vocabulary`, none of them 0."""
        return self.data.integers(1, vocabulary, (BATCH, length)).astype("int32")

    def digits(self, size: int = 8) -> tuple[Any, Any]:
        """A batch of scikit-learn's digits, of that size and with one channel, and what they show."""
        images, labels = load_digits(return_X_y=True)
        grid = images[:BATCH].reshape(BATCH, 8, 8, 1).astype("float32") / 16
        times = math.ceil(size / 8)
        return np.repeat(np.repeat(grid, times, 1), times, 2)[:, :size, :size], labels[:BATCH].astype("int32")


def descend(optimizer: Any, loss: Callable[[], Any], variables: Sequence[Any]) -> Any:
    """One step of gradient descent, with the scaling calls that documentation asks of a loop of one's own."""
    keras_3, tf_keras = (hasattr(optimizer, name) for name in ("scale_loss", "get_scaled_loss"))
    with tf.GradientTape() as tape:
        value = loss()
        scaled = optimizer.scale_loss(value) if keras_3 else optimizer.get_scaled_loss(value) if tf_keras else value
    gradients = tape.gradient(scaled, variables)
    gradients = optimizer.get_unscaled_gradients(gradients) if tf_keras else gradients
    optimizer.apply_gradients(zip(gradients, variables, strict=True))
    return value
