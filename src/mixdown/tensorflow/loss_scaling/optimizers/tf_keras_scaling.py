"""What the new-style and the legacy tf_keras loss-scale optimizers have in common. Start with `get_scaled_loss`.

`Scaling` is a part of both classes: it holds the inner optimizer and the loss scale, scales losses, unscales gradients,
and answers for every attribute that it does not have itself with the inner optimizer's.
"""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from mixdown import messages
from mixdown.errors import LossScaleWarning
from mixdown.scaling import checked_limit
from mixdown.scaling.alarm import WARN_AT
from mixdown.tensorflow.loss_scaling.branching import in_xla
from mixdown.tensorflow.loss_scaling.loss_scale import DynamicLossScale, FixedLossScale, get
from mixdown.tensorflow.loss_scaling.misuse import Usage
from mixdown.tensorflow.loss_scaling.optimizers.gradients import scaled, unscaled
from mixdown.tensorflow.loss_scaling.optimizers.step_record import Accountable, sound
from mixdown.tensorflow.loss_scaling.optimizers.tf_keras_step import Apply, step
from mixdown.tensorflow.loss_scaling.scaler_reports import remember
from mixdown.tensorflow.runtime.private import DelegatingTrackableMixin

OWN = frozenset(
    {
        "_trackable",  # what TensorFlow's mixin calls the inner optimizer
        "_loss_scale",
        "_skip_limit",
        "_names",
        "usage",
        "_gradients_were_unscaled",
        "_alarm_is_late",
        "_alarm_was_heard",
    }
)
"""The attributes of the wrapper. Any other that is set or asked for is the inner optimizer's."""

WRAPPED = "_is_wrapped_by_loss_scale_optimizer"
"""The mark tf_keras's own LossScaleOptimizer leaves on an optimizer: each refuses what the other has wrapped."""


# In a checkpoint the wrapper stands where the inner optimizer would stand, with one more child, `loss_scale`: files
# written with the bare optimizer or with tf_keras's own LossScaleOptimizer can be read, and the other way round.
class Scaling(Accountable, DelegatingTrackableMixin):
    """Mixed into a tf_keras optimizer."""

    def _take(self, inner: Any, loss_scale: Any, skip_limit: int | None) -> None:
        refuse_second_scale(inner)
        scale, limit = get(loss_scale), checked_limit(skip_limit)
        super().__init__(inner)
        self._loss_scale, self._skip_limit = scale, limit
        self._names: dict[str, int] = {}
        self.usage, self._gradients_were_unscaled = Usage(), False
        self._alarm_is_late = self._alarm_was_heard = False
        self._track_trackable(scale, "loss_scale")
        setattr(inner, WRAPPED, True)
        remember(self)

    @property
    def inner_optimizer(self) -> Any:
        """The optimizer that does the work."""
        return self._trackable

    def __getattr__(self, name: str) -> Any:
        if name in OWN or name.startswith("__"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self.inner_optimizer, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in OWN:
            object.__setattr__(self, name, value)
        else:
            setattr(self.inner_optimizer, name, value)

    def _trackable_children(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        # A new-style optimizer remembers its children from the first time it was asked, which may be before wrapping.
        return {**super()._trackable_children(*args, **kwargs), "loss_scale": self._loss_scale}

    def get_scaled_loss(self, loss: Any) -> Any:
        """The loss times the current scale, to be differentiated; a callable loss gives a callable."""
        self.usage.note_scaled()
        return (lambda: scaled(loss(), self._loss_scale())) if callable(loss) else scaled(loss, self._loss_scale())

    def scale_loss(self, loss: Any) -> Any:
        """`get_scaled_loss` under the name it has in Keras 3."""
        return self.get_scaled_loss(loss)

    def get_unscaled_gradients(self, grads: Sequence[Any]) -> list[Any]:
        """The gradients of the loss itself, from those of the scaled loss; None stays None."""
        self._gradients_were_unscaled = True
        scale = self._loss_scale()
        return [unscaled(each, scale) for each in grads]

    def _scaled_in(self, tape: Any, loss: Any) -> Any:
        """The scaled loss, on the tape that recorded the loss."""
        if callable(loss):
            return self.get_scaled_loss(loss)
        if tape is None:
            return loss  # the inner optimizer says what is missing
        with tape:
            return self.get_scaled_loss(loss)

    def _unscaled_pairs(self, pairs: Sequence[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        gradients = self.get_unscaled_gradients([gradient for gradient, _ in pairs])
        return list(zip(gradients, [variable for _, variable in pairs], strict=True))

    def _step(self, pairs: Sequence[tuple[Any, Any]], apply: Apply) -> Any:
        """Take one step on aggregated gradients."""
        self._warn_of_misuse()
        self._listen()
        self._alarm_is_late |= in_xla()
        return step(self, [each for each, _ in pairs], self._numbers(of for _, of in pairs), apply)

    def _warn_of_misuse(self) -> None:
        advice = MISUSE.get((self.usage.scaled, self._gradients_were_unscaled))
        if advice:
            self.usage.scaled = self._gradients_were_unscaled = True  # said once
            messages.warn(f"{advice} {RIGHT_USE}", LossScaleWarning)

    def _listen(self) -> None:
        """Sound the alarm of compiled steps, which could not do so themselves."""
        if self._alarm_is_late and tf.executing_eagerly():
            self.check_skips()

    def check_skips(self, session: Any = None) -> None:
        """Raise, or warn once, if too many steps in a row were skipped.

        Raises:
            LossScaleError: `skip_limit` is reached.
        """
        account = self.account(session)
        if self._skip_limit is not None:
            sound(account.skips_in_a_row, account.offending_variables, skip_limit=self._skip_limit)
        elif account.skips_in_a_row >= WARN_AT and not self._alarm_was_heard:
            self._alarm_was_heard = True
            sound(WARN_AT, account.offending_variables, skip_limit=None)

    @property
    def loss_scale(self) -> tf.Tensor:
        """The scale of the next step, as a tensor, so that it may be used while a function is traced."""
        return self._loss_scale()

    @property
    def skip_limit(self) -> int | None:
        """Skips in a row after which `LossScaleError` is raised."""
        return self._skip_limit

    @property
    def dynamic(self) -> bool:
        """Whether the scale ever changes."""
        return isinstance(self._loss_scale, DynamicLossScale)

    @property
    def dynamic_counter(self) -> tf.Variable | None:
        """The variable behind `good_steps`; None if the scale is not dynamic."""
        return self._loss_scale.weight("good_steps") if self.dynamic else None

    @property
    def initial_scale(self) -> float:
        """The scale of the first step."""
        return self._loss_scale.law.initial

    @property
    def dynamic_growth_steps(self) -> int | None:
        """Finite steps in a row before the scale grows; None if the scale is not dynamic."""
        return self._loss_scale.law.increment_period if self.dynamic else None

    def _set_values(self, values: list[Any], inner_variables: Sequence[Any]) -> None:
        """Set the variables of the inner optimizer and, unless they are left out, those of the loss scale."""
        inner, own = len(inner_variables), self._loss_scale.weights
        if len(values) not in (inner, inner + len(own)):
            raise ValueError(
                f"{type(self).__name__} has {inner} variables of its inner optimizer and {len(own)} of the loss "
                f"scale, got {len(values)} values. Pass values for all, or for the inner optimizer's alone."
            )
        self.inner_optimizer.set_weights(values[:inner])
        for variable, value in zip(own, values[inner:], strict=False):
            variable.assign(np.asarray(value))

    def get_config(self) -> dict[str, Any]:
        """What `from_config` needs; the current scale and the books are variables, saved as such."""
        return {
            "inner_optimizer": tf_keras.optimizers.serialize(self.inner_optimizer),
            "loss_scale": tf_keras.saving.serialize_keras_object(self._loss_scale),
            "skip_limit": self._skip_limit,
            "is_legacy_optimizer": isinstance(self, tf_keras.optimizers.legacy.Optimizer),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> Any:
        """The optimizer that `get_config` described, without its variables."""
        inner, scale = config["inner_optimizer"], config["loss_scale"]
        if isinstance(inner, dict):
            inner = tf_keras.optimizers.deserialize(deepcopy(inner), custom_objects)  # it writes into what it is given
        known = {each.__name__: each for each in (DynamicLossScale, FixedLossScale)}
        scale = tf_keras.saving.deserialize_keras_object(scale, {**known, **(custom_objects or {})})
        return cls(inner, scale, skip_limit=config["skip_limit"])


RIGHT_USE = (
    "Scale the loss inside the tape, loss = optimizer.get_scaled_loss(loss), and unscale what the tape gives, "
    "gradients = optimizer.get_unscaled_gradients(gradients), or let optimizer.minimize do both."
)
MISUSE = {
    (False, False): "apply_gradients was given gradients of a loss that was never scaled: they may underflow.",
    (False, True): "get_unscaled_gradients was called, but the loss was never scaled: every gradient is too small.",
    (True, False): "get_scaled_loss was called, but the gradients were never unscaled: every one is too large.",
}
"""What went wrong, by whether the loss was ever scaled and the gradients ever unscaled."""


def refuse_second_scale(inner: Any) -> None:
    """Refuse an inner optimizer that scales the loss itself, or whose loss is scaled already."""
    if isinstance(inner, tf_keras.mixed_precision.LossScaleOptimizer):
        raise ValueError(  # noqa: TRY004 - the type is right, the second scale is not
            f"LossScaleOptimizer cannot wrap {type(inner).__name__}, which scales the loss already. "
            "Pass the bare optimizer instead."
        )
    if getattr(inner, WRAPPED, False):
        raise ValueError(
            f"This {type(inner).__name__} is wrapped by another LossScaleOptimizer already, and the loss would be "
            "scaled twice. Use that one, or make a new optimizer."
        )


def refuse_cross_replica() -> None:
    """Refuse to apply gradients where no replica is at hand."""
    if tf.distribute.in_cross_replica_context():
        raise RuntimeError(
            "apply_gradients must be called in replica context, got cross-replica context. "
            "Move the call into the function that is passed to strategy.run."
        )


def forwarded(name: str) -> property:
    """A property or method of the optimizer's base class that is the inner optimizer's instead."""
    return property(lambda optimizer: getattr(optimizer.inner_optimizer, name))
