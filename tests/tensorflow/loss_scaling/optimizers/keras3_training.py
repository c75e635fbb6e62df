"""A small training job for the Keras 3 tests: data in shards, a model, and the plain run it must agree with."""

import os
from collections.abc import Iterable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf

import mixdown

SHARD = 4  # examples a replica and step
NAMES = ["net/first/kernel", "net/first/bias", "net/last/kernel", "net/last/bias"]


def adam(**settings: Any) -> Any:
    return keras.optimizers.Adam(**{"learning_rate": 0.01, **settings})


def wrapped(inner: Any = None, loss_scale: Any = "dynamic", *, skip_limit: int | None = None) -> Any:
    optimizer = mixdown.LossScaleOptimizer(inner or adam(), loss_scale, skip_limit=skip_limit)
    optimizer.scale_loss(0.0)  # many tests hand it gradients of a scaled loss that they only imagine
    return optimizer


def model() -> Any:
    keras.utils.set_random_seed(3)
    layers = [keras.Input([4]), keras.layers.Dense(3, "tanh", name="first"), keras.layers.Dense(1, name="last")]
    return keras.Sequential(layers, name="net")


def compiled(optimizer: Any, **settings: Any) -> Any:
    net = model()
    net.compile(optimizer, "mse", **{"jit_compile": False, **settings})
    return net


def shard(step: int, replica: int = 0, *, bad: bool = False) -> tuple[Any, Any]:
    """The examples of one replica at one step."""
    x = np.random.default_rng([step, replica]).normal(size=(SHARD, 4)).astype("float32")
    y = x.sum(axis=1, keepdims=True)
    if bad:
        x[1, 2] = np.nan
    return x, y


def fit(net: Any, steps: Iterable[int], *, bad: Iterable[int] = ()) -> None:
    """Train on one shard a step, in order."""
    shards = [shard(step, bad=step in set(bad)) for step in steps]
    x, y = (np.concatenate(each) for each in zip(*shards, strict=True))
    net.fit(x, y, batch_size=SHARD, shuffle=False, verbose=0)


def squared_error(net: Any, x: Any, y: Any, replicas: int = 1) -> Any:
    """A replica's part of the mean squared error."""
    return tf.reduce_mean(tf.square(net(x) - y)) / replicas


def plain_run(steps: Iterable[int], replicas: int = 1, inner: Any = None, *, traced: bool = True) -> list[bytes]:
    """The weights after training the bare optimizer on these steps in one process, gradients of replicas summed.

    Traced or not as the run it is compared with: on some CPUs oneDNN rounds differently in a graph.
    """
    net, optimizer = model(), inner or adam()

    def gradients(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = squared_error(net, x, y, replicas)
        return tape.gradient(loss, net.trainable_variables)

    compute = tf.function(gradients) if traced else gradients
    for step in steps:
        parts = [compute(*map(tf.constant, shard(step, replica))) for replica in range(replicas)]
        optimizer.apply([tf.add_n(each) for each in zip(*parts, strict=True)], net.trainable_variables)
    return contents(net.weights)


def contents(variables: Iterable[Any]) -> list[bytes]:
    """What the variables hold, bit for bit."""
    return [each.numpy().tobytes() for each in variables]
