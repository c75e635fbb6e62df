"""Training steps of Keras 3 programs that never scale the loss: they train as float32 does, and are warned once."""

import functools
import gc
import warnings
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import mixdown
from mixdown.tensorflow.calls import active_policy

STEPS, BATCH = 20, 16
FEATURES = np.random.default_rng(0).normal(size=(STEPS, BATCH, 8)).astype("float32")
TARGETS = np.tanh(FEATURES.sum(axis=-1, keepdims=True))
CPU_TOO = mixdown.Policy(devices=("GPU", "CPU"))

OPTIMIZERS = {
    "sgd": functools.partial(keras.optimizers.SGD, 0.05, momentum=0.9),
    "adam": functools.partial(keras.optimizers.Adam, 0.01),
}
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "clipnorm": {"clipnorm": 0.1},
    "global clipnorm": {"global_clipnorm": 0.1},
    "accumulation": {"gradient_accumulation_steps": 2},
    "clipped and accumulated": {"clipnorm": 0.1, "gradient_accumulation_steps": 2},
}
LOOPS = ("eager", "graph", "retraced", "compiled", "fit", "compiled fit")


@pytest.fixture(autouse=True)
def _disabled_afterwards() -> Iterator[None]:
    yield
    active_policy.set_process_policy(None)


def network() -> Any:
    keras.utils.set_random_seed(3)
    return keras.Sequential([keras.Input([8]), keras.layers.Dense(32, "tanh"), keras.layers.Dense(1)])


class Trainer(keras.Model):
    """A model with a training step of its own, which takes a tape and applies what it gives."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        self.net = net

    def call(self, x: Any) -> Any:
        return self.net(x)

    def train_step(self, data: Any) -> Any:
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self(x) - y))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return {"loss": loss}


def trained(optimizer: Any, loop: str) -> Any:
    """The weights after 20 steps, one after the other in a vector."""
    net = network()
    trainer = Trainer(net)
    if "fit" in loop:
        trainer.compile(optimizer, jit_compile="compiled" in loop)
        trainer.fit(FEATURES.reshape(-1, 8), TARGETS.reshape(-1, 1), batch_size=BATCH, shuffle=False, verbose=0)
        return flat(net)
    trainer.optimizer = optimizer
    step = trainer.train_step
    if loop != "eager":
        step = tf.function(step, jit_compile=loop == "compiled", autograph=False)
    for at in range(STEPS):
        size = BATCH - at % 3 if loop == "retraced" else BATCH
        step((tf.constant(FEATURES[at, :size]), tf.constant(TARGETS[at, :size])))
    return flat(net)


def flat(net: Any) -> Any:
    return np.concatenate([each.numpy().ravel() for each in net.weights])


@functools.cache
def in_float32(optimizer: str, setting: str, loop: str) -> Any:
    return trained(OPTIMIZERS[optimizer](**SETTINGS[setting]), loop)


def trained_and_warned_once(optimizer: Any, loop: str) -> Any:
    with pytest.warns(mixdown.LossScaleWarning, match="never scaled: they are not divided") as found:
        weights = trained(optimizer, loop)
    assert sum("never scaled" in str(each.message) for each in found) == 1
    assert optimizer.skipped_steps == 0
    return weights


QUICK = [
    *((optimizer, "clipped and accumulated", loop) for optimizer in OPTIMIZERS for loop in ("eager", "graph")),
    ("sgd", "clipped and accumulated", "compiled"),
    ("adam", "clipped and accumulated", "compiled fit"),
    ("sgd", "plain", "retraced"),
    ("adam", "plain", "fit"),
]
ALL = [(optimizer, setting, loop) for optimizer in OPTIMIZERS for setting in SETTINGS for loop in LOOPS]
CASES = [*QUICK, *(pytest.param(*each, marks=pytest.mark.slow) for each in ALL if each not in QUICK)]


@pytest.mark.parametrize(("name", "setting", "loop"), CASES)
def test_weights_are_those_of_the_bare_optimizer_to_the_bit(name: str, setting: str, loop: str) -> None:
    optimizer = mixdown.LossScaleOptimizer(OPTIMIZERS[name](**SETTINGS[setting]))
    assert (trained_and_warned_once(optimizer, loop) == in_float32(name, setting, loop)).all()


@pytest.mark.parametrize(("name", "setting", "loop"), CASES)
def test_rewritten_steps_follow_float32(name: str, setting: str, loop: str) -> None:
    inner = OPTIMIZERS[name](**SETTINGS[setting])
    weights = trained_and_warned_once(mixdown.enable_mixed_precision_graph_rewrite(inner, policy=CPU_TOO), loop)
    wanted, first = in_float32(name, setting, loop), flat(network())
    off = np.linalg.norm(weights - wanted) / np.linalg.norm(wanted - first)
    assert off == 0.0 if loop == "eager" else 0.0 < off < 0.01  # eager steps are not rewritten


def scaled_by_keras(optimizer: Any, **settings: Any) -> Any:
    """A model that was trained by Keras's own step, which scales the loss."""
    net = network()
    net.compile(optimizer, "mse", **settings)
    net.fit(FEATURES[0], TARGETS[0], batch_size=BATCH, verbose=0)
    return net


def test_a_model_that_scales_does_not_spoil_the_loop_of_another_optimizer() -> None:
    scaled_by_keras(mixdown.LossScaleOptimizer(OPTIMIZERS["sgd"]()), jit_compile=False)
    optimizer = mixdown.LossScaleOptimizer(OPTIMIZERS["sgd"]())
    assert (trained_and_warned_once(optimizer, "graph") == in_float32("sgd", "plain", "graph")).all()


@pytest.mark.parametrize(("jit", "traced"), [(False, False), (True, True)], ids=["eager", "in a function"])
def test_an_optimizer_may_scale_in_fit_and_not_in_a_loop_after_it(*, jit: bool, traced: bool) -> None:
    after = []
    for wrap in (lambda inner: inner, mixdown.LossScaleOptimizer):
        optimizer = wrap(keras.optimizers.SGD(0.5))
        net = scaled_by_keras(optimizer, jit_compile=jit)
        trainer = Trainer(net)
        trainer.optimizer = optimizer
        step = tf.function(trainer.train_step, autograph=False) if traced else trainer.train_step
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            step((tf.constant(FEATURES[1]), tf.constant(TARGETS[1])))
        net.fit(FEATURES[2], TARGETS[2], batch_size=BATCH, verbose=0)  # it still divides what it scaled
        after.append(flat(net))
    assert [each.category for each in found] == [mixdown.LossScaleWarning]
    assert np.abs(after[1] - after[0]).max() < 1e-6


def test_gradients_from_a_function_that_is_gone_are_still_divided() -> None:
    weight, optimizer = keras.Variable([0.0]), mixdown.LossScaleOptimizer(keras.optimizers.SGD(1.0))

    def gradient() -> Any:
        with tf.GradientTape() as tape:
            loss = optimizer.scale_loss(tf.reduce_sum(3.0 * weight))
        return tape.gradient(loss, weight.value)

    for _ in range(2):
        found = tf.function(gradient)()
        gc.collect()
        optimizer.apply([found], [weight])
    assert weight.numpy() == [-6.0]


def test_a_scaled_loss_of_a_function_may_be_applied_in_its_branches() -> None:
    weight, optimizer = keras.Variable([0.0]), mixdown.LossScaleOptimizer(keras.optimizers.SGD(1.0))
    optimizer.build([weight])

    @tf.function(autograph=False)
    def step(twice: Any) -> None:
        with tf.GradientTape() as tape:
            loss = optimizer.scale_loss(tf.reduce_sum(3.0 * weight))
        gradients = [tape.gradient(loss, weight.value)]
        optimizer.apply(gradients)
        tf.cond(twice, lambda: optimizer.apply(gradients), lambda: None)

    step(tf.constant(True))  # noqa: FBT003 - a tensor
    assert weight.numpy() == [-6.0]
