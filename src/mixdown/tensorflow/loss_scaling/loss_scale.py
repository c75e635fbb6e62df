"""The documented loss scales: `LossScale`, `FixedLossScale`, `DynamicLossScale`; `mixdown.scaling` in TensorFlow.

They work eagerly, in `tf.function`, in v1 graphs and under `tf.distribute` strategies, and are saved by
`tf.train.Checkpoint` and by the v1 Saver.
"""

import abc
from dataclasses import asdict
from typing import Any, Self

import tensorflow as tf

from mixdown.scaling import Law, State, after, machine, start
from mixdown.tensorflow.loss_scaling.branching import either, where
from mixdown.tensorflow.loss_scaling.gradients import agreed_codes, agreed_finite, first_of
from mixdown.tensorflow.loss_scaling.step_counters import StepCounters
from mixdown.tensorflow.runtime.private import TensorFlowDynamicScale, TensorFlowFixedScale


class LossScale(StepCounters, abc.ABC):
    """What a loss is multiplied by, so that float16 gradients do not underflow.

    Call it for the current scale. A subclass defines `__call__`, `update` and `get_config`; it calls
    `super().__init__()` first and may `declare` weights of its own. Every loss scale also counts the steps an optimizer
    tried with it: `steps`, `skipped_steps`, `last_skipped_step`, `skips_in_a_row`, `good_steps`.
    """

    @abc.abstractmethod
    def __call__(self) -> tf.Tensor:
        """The current scale, a scalar float32 tensor."""

    @abc.abstractmethod
    def update(self, grads: Any) -> tuple[tf.Operation | tf.Tensor | None, tf.Tensor | bool]:
        """Adjust the scale after a step.

        Args:
            grads: the unscaled gradients, in any nested structure; None is ignored. Under a strategy, either the
                per-replica gradients in cross-replica context or a replica's own in replica context.

        Returns:
            The operation or tensor that updates the scale when it is run (None when executing eagerly: it is done),
            and whether the gradients should be applied.
        """

    def readable(self) -> Any:
        """The current scale as a number, a variable or a tensor: whatever can be read without adding to a graph."""
        return self()

    @abc.abstractmethod
    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments. The current scale is not one of them: checkpoints hold it."""

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """A new loss scale with the arguments that `get_config` returned."""
        return cls(**config)

    def decide(self, gradients: list[Any], finite: tf.Tensor) -> tuple[tf.Operation | None, Any]:
        """`update` for an optimizer that has checked the gradients already, and counts the step itself."""
        del finite
        return self.update(gradients)


class FixedLossScale(LossScale):
    """A scale that never changes.

    Args:
        loss_scale_value: the scale, at least 1.

    Raises:
        WrongTypeError: it is not a number, or is a bool.
        ValueError: it is not finite, or less than 1.
    """

    def __init__(self, loss_scale_value: float) -> None:
        super().__init__()
        self.law = machine.fixed_law("loss_scale_value", loss_scale_value)
        self._value = self.law.initial
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
        WrongTypeError: an argument is not a number, or is a bool.
        ValueError: an argument is not finite or out of range.
    """

    def __init__(
        self,
        initial_loss_scale: float = 2**15,
        increment_period: int = 2000,
        multiplier: float = 2.0,
        *,
        floor: float = 1.0,
        ceiling: float = machine.LARGEST_SCALE,
        tolerance: int = 1,
    ) -> None:
        super().__init__()
        self.law = Law(initial_loss_scale, increment_period, multiplier, floor, ceiling, tolerance)
        first = start(self.law)
        self.declare("current_loss_scale", first.scale, tf.float32)
        self.declare("good_steps", first.good_steps, tf.int64)
        self.create()

    initial_loss_scale = property(lambda self: self.law.initial, doc="The scale of the first step.")
    increment_period = property(lambda self: self.law.increment_period, doc="Finite steps before the scale grows.")
    multiplier = property(lambda self: self.law.multiplier, doc="The factor of growth, and of a drop.")

    # What TensorFlow's class calls its variables: programs log them by these names.
    _current_loss_scale = property(lambda self: self.weight("current_loss_scale"))
    _num_good_steps = property(lambda self: self.weight("good_steps"))

    @property
    def good_steps(self) -> Any:
        """Finite steps since the scale last grew or a bad step came."""
        return self.read_count("good_steps")

    def __call__(self) -> tf.Tensor:
        """The current scale, a scalar float32 tensor."""
        return self.tensor("current_loss_scale")

    def readable(self) -> tf.Variable:
        """The variable that holds the current scale."""
        return self.weight("current_loss_scale")

    def update(self, grads: Any) -> tuple[tf.Tensor | None, tf.Tensor]:
        """Adjust the scale, count the step, and advise to apply the gradients if all of them are finite.

        All replicas of a strategy get the same advice: one bad replica skips the step for all.
        """
        gradients = tf.nest.flatten(grads)
        finite = agreed_finite(gradients)
        if tf.distribute.in_cross_replica_context() or not tf.distribute.has_strategy():
            return self._settle(finite, gradients), finite
        # One writer for all replicas: each reading and writing in its turn would count the step several times.
        replica = tf.distribute.get_replica_context()
        return replica.merge_call(lambda _, *of_all: self._settle(*of_all), args=(finite, gradients)), finite

    def decide(self, gradients: list[Any], finite: tf.Tensor) -> tuple[tf.Operation | None, Any]:
        """`update` for an optimizer that has checked the gradients already, and counts the step itself."""
        del gradients
        return self._moved(finite), finite

    def _settle(self, finite: Any, gradients: list[Any]) -> tf.Tensor | None:
        finite = first_of(finite)
        done = [self._moved(finite), self.count_step(finite=finite)[0]]
        with tf.control_dependencies([op for op in done if op is not None]):
            numbers = range(len(gradients))
            return either(finite, lambda: None, lambda: self.log_skip(numbers, agreed_codes(gradients), self()))

    def _moved(self, finite: tf.Tensor) -> tf.Operation | None:
        old = State(*map(self.tensor, STATE_WEIGHTS))
        new = after(self.law, old, finite=finite, where=where)
        return self.write(dict(zip(STATE_WEIGHTS, new, strict=True)))

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        arguments = asdict(self.law)
        return {"initial_loss_scale": arguments.pop("initial"), **arguments}

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value}" for name, value in self.get_config().items())
        if not tf.executing_eagerly():
            return f"DynamicLossScale({arguments})"
        now = f"current_loss_scale={self.read_count('current_loss_scale')}, good_steps={self.good_steps}"
        return f"DynamicLossScale({now}, {arguments})"


STATE_WEIGHTS = ("current_loss_scale", "good_steps", "bad_steps")
"""The weights that hold the fields of `State`, in its order."""


def get(identifier: Any) -> LossScale:
    """The loss scale for a number, "dynamic" or a `LossScale`; of TensorFlow's own, one with the same values."""
    if isinstance(identifier, LossScale):
        return identifier
    law = law_of(identifier)
    if law.floor == law.ceiling:
        return FixedLossScale(law.initial)
    return DynamicLossScale(law.initial, law.increment_period, law.multiplier)


def law_of(loss_scale: Any) -> Law:
    """The law behind "dynamic", a number, a `Law`, or a loss scale of mixdown's or TensorFlow's; others are refused.

    It creates no variable. Of TensorFlow's own loss scales, one that has moved already starts where it stands.
    """
    if not isinstance(loss_scale, (TensorFlowFixedScale, TensorFlowDynamicScale)):
        return machine.law_of(loss_scale)
    arguments = loss_scale.get_config()
    if isinstance(loss_scale, TensorFlowFixedScale):
        return machine.fixed_law(*arguments.popitem())
    initial = arguments.pop("initial_loss_scale")
    return Law(float(loss_scale()) if tf.executing_eagerly() else initial, **arguments)
