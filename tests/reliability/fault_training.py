"""Training whose gradients can be spoiled: any step, variable, replica and number. Start with `trained`.

HOSTS are the ways to train, one class each: Keras 3, tf_keras (new and legacy), and v1 (in a function, in a session).
All take the same steps on the same examples, so that a run can be repeated without the steps that were spoiled.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import tensorflow as tf
from tests.tensorflow.loss_scaling.optimizers import keras3_training, tf_keras_training

import mixdown
from mixdown.tensorflow.loss_scaling.optimizers.v1 import MixedPrecisionLossScaleOptimizer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

v1 = tf.compat.v1
VARIABLES = ([4, 3], [3], [3, 1], [1])  # the shapes of all models here
BAD_NUMBERS = (np.nan, np.inf, -np.inf)
HUGE = 1e9
SCALE = 2.0**10  # far from both ends of float16, so that dividing it by two is exact for every gradient


class Fault(NamedTuple):
    """A number that is added to one element of one gradient."""

    step: int
    variable: int
    replica: int
    value: float

    @property
    def verdict(self) -> str:
        """What the books must say of it."""
        return "NaN" if np.isnan(self.value) else "Inf"

    def array(self) -> Any:
        """What is added to the gradient."""
        out = np.zeros(VARIABLES[self.variable], "float32")
        out.flat[self.step % out.size] = self.value
        return out


def schedule(seed: int, steps: int, count: int, replicas: int = 1) -> list[Fault]:
    """So many faults at random, on all replicas in turn: no two at one step."""
    rng = np.random.default_rng(seed)
    bad = sorted(rng.choice(steps, count, replace=False).tolist())
    return [
        Fault(step, int(rng.integers(len(VARIABLES))), (number + seed) % replicas, value)
        for number, (step, value) in enumerate(zip(bad, rng.choice(BAD_NUMBERS, count).tolist(), strict=True))
    ]


def spoil(step: int, replica: int, faults: Iterable[Fault]) -> list[Any]:
    """What is added to the gradients of a replica at a step."""
    here = {fault.variable: fault.array() for fault in faults if (fault.step, fault.replica) == (step, replica)}
    return [here.get(number, np.zeros(shape, "float32")) for number, shape in enumerate(VARIABLES)]


def shard(step: int, replica: int = 0, *, huge: bool = False) -> tuple[Any, Any]:
    """The examples of one replica at one step; all targets are huge if they are to be refused."""
    x, y = keras3_training.shard(step, replica)
    return x, (np.full_like(y, HUGE) if huge else y)


def law() -> Any:
    """The loss scale of all runs; too few steps for it to grow."""
    return mixdown.DynamicLossScale(SCALE, increment_period=1000)


class Job(ABC):
    """A model and a wrapped optimizer under a strategy."""

    optimizer: Any

    def __init__(self, strategy: Any) -> None:
        self.strategy = strategy
        with strategy.scope():
            self.build()
        self.train = tf.function(lambda *parts: strategy.run(self.on_replica, args=parts), autograph=False)

    @abstractmethod
    def build(self) -> None:
        """Make the model and the optimizer."""

    @abstractmethod
    def on_replica(self, x: Any, y: Any, added: list[Any]) -> None:
        """A step of one replica."""

    @abstractmethod
    def weights(self) -> Sequence[Any]:
        """Every variable of the model and of the wrapped optimizer."""

    @abstractmethod
    def names(self) -> list[str]:
        """How the books call the trained variables."""

    def guard(self, y: Any) -> Any:
        """The user's own code on the targets, which may refuse huge ones."""
        return y

    def loss(self, predicted: Any, y: Any) -> Any:
        """A replica's part of the mean squared error."""
        return tf.reduce_mean(tf.square(predicted - self.guard(y))) / self.strategy.num_replicas_in_sync

    def step(self, number: int, faults: Iterable[Fault] = (), *, huge: bool = False) -> None:
        """Take a step."""

        def part(at: Any) -> Any:
            replica = at.replica_id_in_sync_group
            return *shard(number, replica, huge=huge), spoil(number, replica, faults)

        count = len(VARIABLES)
        spread = self.strategy.experimental_distribute_values_from_function
        x, y = (spread(lambda at, index=index: tf.constant(part(at)[index])) for index in range(2))
        self.train(x, y, [spread(lambda at, index=index: tf.constant(part(at)[2][index])) for index in range(count)])

    def state(self) -> list[list[bytes]]:
        """The bytes of every weight, on every replica."""
        local = self.strategy.experimental_local_results
        return [[part.numpy().tobytes() for part in local(each)] for each in self.values()]

    def values(self) -> list[Any]:
        """The weights, as TensorFlow holds them."""
        return [each if isinstance(each, tf.Variable) else each.value for each in self.weights()]

    def account(self) -> Any:
        """The books."""
        return self.optimizer.account()


class Keras3(Job):
    def build(self) -> None:
        self.net = keras3_training.model()
        self.optimizer = keras3_training.wrapped(loss_scale=law())
        self.optimizer.build(self.net.trainable_variables)

    def on_replica(self, x: Any, y: Any, added: list[Any]) -> None:
        with tf.GradientTape() as tape:
            loss = self.optimizer.scale_loss(self.loss(self.net(x), y))
        gradients = tape.gradient(loss, self.net.trainable_variables)
        self.optimizer.apply([g + a for g, a in zip(gradients, added, strict=True)], self.net.trainable_variables)

    def weights(self) -> Sequence[Any]:
        return [*self.net.weights, *self.optimizer.inner_optimizer.variables]

    def names(self) -> list[str]:
        return [each.path for each in self.net.trainable_variables]


class TfKeras(Job):
    style = "new"

    def build(self) -> None:
        self.net = tf_keras_training.model()
        self.optimizer = tf_keras_training.wrapped(tf_keras_training.bare(self.style), law())

    def on_replica(self, x: Any, y: Any, added: list[Any]) -> None:
        with tf.GradientTape() as tape:
            loss = self.optimizer.get_scaled_loss(self.loss(self.net(x), y))
        gradients = self.optimizer.get_unscaled_gradients(tape.gradient(loss, self.net.trainable_variables))
        spoiled = [g + a for g, a in zip(gradients, added, strict=True)]
        self.optimizer.apply_gradients(zip(spoiled, self.net.trainable_variables, strict=True))

    def weights(self) -> Sequence[Any]:
        inner = self.optimizer.inner_optimizer.variables
        return [*self.net.variables, *(inner() if callable(inner) else inner)]

    def names(self) -> list[str]:
        return [each.name for each in self.net.trainable_variables]


class TfKerasLegacy(TfKeras):
    style = "legacy"


class V1(Job):
    def build(self) -> None:
        starts = np.random.default_rng(5)
        drawn = [starts.normal(size=shape).astype("float32") / 2 for shape in VARIABLES]
        self.variables = [tf.Variable(each, name=f"v{number}") for number, each in enumerate(drawn)]
        self.count = tf.Variable(0, dtype=tf.int64, trainable=False, name="count")
        self.optimizer = MixedPrecisionLossScaleOptimizer(v1.train.MomentumOptimizer(0.05, 0.9), law())

    def predicted(self, x: Any) -> Any:
        first, bias, last, offset = self.variables
        return tf.matmul(tf.tanh(tf.matmul(x, first) + bias), last) + offset

    def on_replica(self, x: Any, y: Any, added: list[Any]) -> Any:
        pairs = self.optimizer.compute_gradients(lambda: self.loss(self.predicted(x), y), self.variables)
        spoiled = [(g + a, variable) for (g, variable), a in zip(pairs, added, strict=True)]
        self.optimizer.apply_gradients(spoiled, self.count)

    def weights(self) -> Sequence[Any]:
        slots = [self.optimizer.get_slot(each, "momentum") for each in self.variables]
        return [*self.variables, self.count, *(each for each in slots if each is not None)]

    def names(self) -> list[str]:
        return [each.name for each in self.variables]


class V1Session(V1):
    """The same in a graph of its own, run by a session; one replica."""

    def __init__(self, strategy: Any) -> None:
        self.strategy, self.graph = strategy, tf.Graph()
        with self.graph.as_default():
            self.build()
            self.fed = [v1.placeholder(tf.float32, shape) for shape in ([None, 4], [None, 1], *VARIABLES)]
            x, y, *added = self.fed
            pairs = self.optimizer.compute_gradients(self.loss(self.predicted(x), y), self.variables)
            spoiled = [(g + a, variable) for (g, variable), a in zip(pairs, added, strict=True)]
            self.operation = self.optimizer.apply_gradients(spoiled, self.count)
            self.session = v1.Session()
            self.session.run(v1.global_variables_initializer())

    def step(self, number: int, faults: Iterable[Fault] = (), *, huge: bool = False) -> None:
        parts = [*shard(number, huge=huge), *spoil(number, 0, faults)]
        self.session.run(self.operation, dict(zip(self.fed, parts, strict=True)))

    def state(self) -> list[list[bytes]]:
        with self.graph.as_default():
            return [[each.tobytes()] for each in self.session.run(self.weights())]

    def account(self) -> Any:
        with self.graph.as_default():
            return self.optimizer.account(self.session)


HOSTS: dict[str, type[Job]] = {
    "keras 3": Keras3,
    "tf_keras": TfKeras,
    "tf_keras legacy": TfKerasLegacy,
    "v1": V1,
    "v1 session": V1Session,
}
ON_REPLICAS = [name for name in HOSTS if name != "v1 session"]
POLICY = mixdown.Policy(devices="all")


def precision(*, mixed: bool) -> Any:
    """A block in which functions run mixed, or one in which nothing is special."""
    return mixdown.rewriting(POLICY) if mixed else nullcontext()


def trained(host: str, steps: Iterable[int], faults: Sequence[Fault] = (), *, mixed: bool, strategy: Any = None) -> Job:
    """A job after these steps."""
    with precision(mixed=mixed):
        job = HOSTS[host](strategy or tf.distribute.get_strategy())
        for number in steps:
            job.step(number, faults)
    return job


def good(steps: int, faults: Iterable[Fault]) -> list[int]:
    """The steps that are not spoiled."""
    bad = {fault.step for fault in faults}
    return [each for each in range(steps) if each not in bad]


def books(job: Job, faults: Sequence[Fault]) -> tuple[list[Any], list[Any]]:
    """What the books say of the skipped steps, and what they must say."""
    said = [(skip.step, skip.scale, list(map(tuple, skip.offenders))) for skip in job.account().skips]
    expected = [
        (fault.step, SCALE / 2.0 ** (number + 1), [(job.names()[fault.variable], fault.verdict)])
        for number, fault in enumerate(faults)
    ]
    return said, expected
