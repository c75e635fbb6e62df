"""The documented loss scales: `LossScale`, `FixedLossScale`, `DynamicLossScale`. They lift `mixdown.scaling`.

They work eagerly, in `tf.function`, in v1 graphs and under `tf.distribute` strategies, and are saved by
`tf.train.Checkpoint` and by the v1 Saver.
"""

import abc
from collections.abc import Sequence
from numbers import Real
from typing import Any, Self

import tensorflow as tf

from mixdown.scaling import Law, State, after, start
from mixdown.scaling.machine import LARGEST_SCALE, positive_real
from mixdown.tensorflow.loss_scaling.branching import either, where
from mixdown.tensorflow.loss_scaling.finite import verdict, verdict_codes
from mixdown.tensorflow.loss_scaling.step_counters import Books


class LossScale(Books, abc.ABC):
    """What a loss is multiplied by, so that float16 gradients do not underflow.

    Call it for the current scale. A subclass defines `__call__`, `update` and `get_config`; it calls
    `super().__init__()` first and may `declare` weights of its own. Every loss scale also keeps the books of the
    steps an optimizer tried with it: `steps`, `skipped_steps`, `last_skipped_step`, `skips_in_a_row`, `good_steps`.
    """

    @abc.abstractmethod
    def __call__(self) -> tf.Tensor:
        """The current scale, a scalar float32 tensor."""

    @abc.abstractmethod
    def update(self, grads: Any) -> tuple[tf.Operation | None, tf.Tensor | bool]:
        """Adjust the scale after a step.

        Args:
            grads: the unscaled gradients, in any nested structure; None is ignored. Under a strategy, either the
                per-replica gradients in cross-replica context or a replica's own in replica context.

        Returns:
            The operation that updates the scale (None when executing eagerly: it is done), and whether the
            gradients should be applied.
        """

    def readable(self) -> Any:
        """The current scale as a number, a variable or a tensor: whatever can be read without adding to a graph."""
        return self()

    def log_skip(self, numbers: Sequence[int], codes: tf.Tensor) -> tf.Tensor:
        """Log a skipped step that the scale and the books know of already; see `Books.accuse`."""
        return self.accuse(numbers, codes, self())

    @abc.abstractmethod
    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments. The current scale is not one of them: checkpoints hold it."""

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """A new loss scale with the arguments that `get_config` returned."""
        return cls(**config)

    def decide(self, gradients: list[Any], finite: tf.Tensor) -> tuple[tf.Operation | None, Any]:
        """`update` for an optimizer that knows already whether the gradients are finite, and counts the step."""
        del finite
        return self.update(gradients)


class FixedLossScale(LossScale):
    """A scale that never changes.

    Args:
        loss_scale_value: the scale, at least 1.

    Raises:
        TypeError: it is not a number, or is a bool.
        ValueError: it is not finite, or less than 1.
    """

    def __init__(self, loss_scale_value: float) -> None:
        super().__init__()
        self._value = positive_real("loss_scale_value", loss_scale_value)
        if self._value < 1:
            raise ValueError(
                f"FixedLossScale needs a scale of at least 1, got {self._value}. "
                f"Use DynamicLossScale({self._value}, floor={self._value}) for smaller scales."
            )
        self.law = Law(initial=self._value, floor=self._value, ceiling=self._value)
        self.create()

    def __call__(self) -> tf.Tensor:
        """The scale, a scalar float32 tensor."""
        return tf.constant(self._value, tf.float32)

    def readable(self) -> float:
        """The scale as a number."""
        return self._value

    def update(self, grads: Any) -> tuple[tf.Operation | None, bool]:
        """Do nothing, and advise to apply the gradients, whatever they hold."""
        del grads
        return tf.group(), True

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {"loss_scale_value": self._value}

    def __repr__(self) -> str:
        return f"FixedLossScale({self._value})"


class DynamicLossScale(LossScale):
    """A scale that grows while gradients are finite and drops when they are not.

    A step whose gradients are not all finite should not be applied; after `tolerance` of them in a row the scale
    is divided by `multiplier`. After `increment_period` finite steps in a row it is multiplied by it. It stays
    within [floor, ceiling].

    Args:
        initial_loss_scale: the scale of the first step.
        increment_period: finite steps in a row before the scale grows.
        multiplier: the factor of growth, and of a drop.
        floor: the scale never drops below this.
        ceiling: a growth that would pass this is not taken.
        tolerance: bad steps in a row before the scale drops.

    Raises:
        TypeError: an argument is not a number, or is a bool.
        ValueError: an argument is not finite or out of range.
    """

    def __init__(
        self,
        initial_loss_scale: float = 2**15,
        increment_period: int = 2000,
        multiplier: float = 2.0,
        *,
        floor: float = 1.0,
        ceiling: float = LARGEST_SCALE,
        tolerance: int = 1,
    ) -> None:
        super().__init__()
        self.law = Law(initial_loss_scale, increment_period, multiplier, floor, ceiling, tolerance)
        first = start(self.law)
        self.declare("current_loss_scale", first.scale, tf.float32)
        self.declare("good_steps", first.good_steps, tf.int64)
        self.create()

    @property
    def initial_loss_scale(self) -> float:
        """The scale of the first step."""
        return self.law.initial

    @property
    def increment_period(self) -> int:
        """Finite steps in a row before the scale grows."""
        return self.law.increment_period

    @property
    def multiplier(self) -> float:
        """The factor of growth, and of a drop."""
        return self.law.multiplier

    @property
    def good_steps(self) -> Any:
        """Finite steps since the scale last grew or a bad step came."""
        return self.read("good_steps")

    def __call__(self) -> tf.Tensor:
        """The current scale, a scalar float32 tensor."""
        return tf.convert_to_tensor(self.weight("current_loss_scale"))

    def readable(self) -> tf.Variable:
        """The variable that holds the current scale."""
        return self.weight("current_loss_scale")

    def update(self, grads: Any) -> tuple[tf.Operation | None, tf.Tensor]:
        """Adjust the scale, count the step, and advise to apply the gradients if all of them are finite.

        All replicas of a strategy get the same advice: one bad replica skips the step for all.
        """
        gradients = tf.nest.flatten(grads)
        finite = verdict(gradients)
        if tf.distribute.in_cross_replica_context() or not tf.distribute.has_strategy():
            return self._settle(finite, gradients), finite
        # One writer for all replicas: each reading and writing in its turn would count the step several times.
        replica = tf.distribute.get_replica_context()
        return replica.merge_call(lambda _, *of_all: self._settle(*of_all), args=(finite, gradients)), finite

    def decide(self, gradients: list[Any], finite: tf.Tensor) -> tuple[tf.Operation | None, Any]:
        """`update` for an optimizer that knows already whether the gradients are finite, and counts the step."""
        del gradients
        return self._moved(finite), finite

    def _settle(self, finite: Any, gradients: list[Any]) -> tf.Operation | None:
        finite = first_of(finite)
        done = [self._moved(finite), self.enter(finite=finite)[0]]
        with tf.control_dependencies([op for op in done if op is not None]):
            everyone = range(len(gradients))
            logged = either(finite, lambda: None, lambda: self.log_skip(everyone, verdict_codes(gradients)))
        return None if logged is None else logged.op

    def _moved(self, finite: tf.Tensor) -> tf.Operation | None:
        old = State(*(tf.convert_to_tensor(self.weight(name)) for name in STATE_WEIGHTS))
        new = after(self.law, old, finite=finite, where=where)
        return self.write(dict(zip(STATE_WEIGHTS, new, strict=True)))

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {
            "initial_loss_scale": self.law.initial,
            "increment_period": self.law.increment_period,
            "multiplier": self.law.multiplier,
            "floor": self.law.floor,
            "ceiling": self.law.ceiling,
            "tolerance": self.law.tolerance,
        }

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value}" for name, value in self.get_config().items())
        if not tf.executing_eagerly():
            return f"DynamicLossScale({arguments})"
        now = f"current_loss_scale={self.read('current_loss_scale')}, good_steps={self.good_steps}"
        return f"DynamicLossScale({now}, {arguments})"


STATE_WEIGHTS = ("current_loss_scale", "good_steps", "bad_steps")
"""The weights that hold the fields of `State`, in its order."""


def get(identifier: Any) -> LossScale:
    """The loss scale for a number, "dynamic" or a `LossScale`.

    Raises:
        TypeError: it is of another type.
        ValueError: it is another string, or a number that is no usable scale.
    """
    if isinstance(identifier, LossScale):
        return identifier
    if isinstance(identifier, str):
        if identifier != "dynamic":
            raise ValueError(f'loss_scale must be a number, "dynamic" or a LossScale, got {identifier!r}.')
        return DynamicLossScale()
    if isinstance(identifier, Real) and not isinstance(identifier, bool):
        return FixedLossScale(identifier)  # type: ignore[arg-type]  # numpy's floats are Real, not float
    kind = type(identifier).__name__
    raise TypeError(f'loss_scale must be a number, "dynamic" or a LossScale, got {identifier!r} of type {kind}.')


def first_of(value: Any) -> tf.Tensor:
    """The value on this worker's first replica, of a value that is the same on all."""
    return tf.distribute.get_strategy().experimental_local_results(value)[0]
