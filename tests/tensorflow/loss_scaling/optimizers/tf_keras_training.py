"""A small training job for the tf_keras tests: data in shards, a model, and the plain run it must agree with."""

import os
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf
import tf_keras

from mixdown.tensorflow.loss_scaling.optimizers.tf_keras import (
    TfKerasLegacyLossScaleOptimizer,
    TfKerasLossScaleOptimizer,
)

STYLES = ("new", "legacy")
NAMESPACES = {"new": tf_keras.optimizers, "legacy": tf_keras.optimizers.legacy}
WRAPPERS: dict[str, Any] = {"new": TfKerasLossScaleOptimizer, "legacy": TfKerasLegacyLossScaleOptimizer}
SHARD = 4  # examples a replica and step


def bare(style: str, kind: str = "Adam", **settings: Any) -> Any:
    return getattr(NAMESPACES[style], kind)(**{"learning_rate": 0.01, **settings})


def wrapped(inner: Any, loss_scale: Any = "dynamic", *, skip_limit: int | None = None) -> Any:
    style = "legacy" if isinstance(inner, tf_keras.optimizers.legacy.Optimizer) else "new"
    return WRAPPERS[style](inner, loss_scale, skip_limit=skip_limit)


def one_variable(style: str, kind: str = "SGD", loss_scale: Any = "dynamic", **settings: Any) -> tuple[Any, Any]:
    optimizer = wrapped(bare(style, kind, **{"learning_rate": 0.5, **settings}), loss_scale)
    return optimizer, tf.Variable([2.0, 3.0], name="v")


def model() -> Any:
    tf_keras.utils.set_random_seed(3)
    layers = [
        tf_keras.layers.Dense(3, activation="tanh", input_shape=(4,), name="first"),
        tf_keras.layers.Dense(1, name="last"),
    ]
    return tf_keras.Sequential(layers)


def shard(step: int, replica: int, *, bad: bool = False) -> tuple[Any, Any]:
    """The examples of one replica at one step."""
    x = np.random.default_rng([step, replica]).normal(size=(SHARD, 4)).astype("float32")
    y = x.sum(axis=1, keepdims=True)
    if bad:
        x[1, 2] = np.nan
    return x, y


def batches(steps: range, *, bad: tuple[int, ...] = ()) -> tuple[Any, Any]:
    """The examples of a run on one replica, for `fit` with a batch size of SHARD."""
    shards = [shard(step, 0, bad=step in bad) for step in steps]
    return np.concatenate([x for x, _ in shards]), np.concatenate([y for _, y in shards])


def fit(net: Any, steps: range, *, bad: tuple[int, ...] = ()) -> None:
    x, y = batches(steps, bad=bad)
    net.fit(x, y, batch_size=SHARD, shuffle=False, verbose=0)


def compiled(optimizer: Any, **settings: Any) -> Any:
    net = model()
    net.compile(optimizer, "mse", **settings)
    return net


def squared_error(net: Any, x: Any, y: Any, replicas: int) -> tf.Tensor:
    """A replica's part of the mean squared error."""
    return tf.reduce_mean(tf.square(net(x) - y)) / replicas


def plain_run(style: str, steps: int, replicas: int, *, bad: tuple[int, ...]) -> list[bytes]:
    """The weights after training the bare optimizer in one process on the steps that are not bad."""
    net, optimizer = model(), bare(style)

    @tf.function
    def gradients(x: Any, y: Any) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            loss = squared_error(net, x, y, replicas)
        return tape.gradient(loss, net.trainable_variables)

    @tf.function
    def update(summed: list[tf.Tensor]) -> None:
        optimizer.apply_gradients(zip(summed, net.trainable_variables, strict=True))

    for step in (each for each in range(steps) if each not in bad):
        parts = [gradients(*map(tf.constant, shard(step, replica))) for replica in range(replicas)]
        update([tf.add_n(part) for part in zip(*parts, strict=True)])
    return weights_of(net)


def weights_of(net: Any) -> list[bytes]:
    return [each.tobytes() for each in net.get_weights()]


def books_of(optimizer: Any) -> dict[str, Any]:
    """Everything an optimizer can be asked about its past."""
    return {
        "loss_scale": float(optimizer.loss_scale),
        "good_steps": optimizer.good_steps,
        "skipped_steps": optimizer.skipped_steps,
        "last_skipped_step": optimizer.last_skipped_step,
        "skips_in_a_row": optimizer.skips_in_a_row,
        "offending_variables": optimizer.offending_variables,
        "iterations": int(optimizer.iterations.numpy()),
    }


def everything_of(optimizer: Any, net: Any) -> list[bytes]:
    """The bytes of every variable of the model and of the inner optimizer, slots and averages included."""
    inner = optimizer.inner_optimizer.variables
    inner = inner() if callable(inner) else inner
    return [each.numpy().tobytes() for each in (*net.variables, *inner)]
