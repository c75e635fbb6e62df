"""What the new-style and the legacy tf_keras loss-scale optimizers share. Start with `TfKerasWrapper.apply_pairs`.

`TfKerasWrapper` is a base of both classes: it holds the inner optimizer and the loss scale, scales losses, unscales
gradients, applies or skips, and forwards every attribute that it does not have itself to the inner optimizer.
"""

from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from mixdown.errors import LossScaleWarning, WrongTypeError
from mixdown.messages import warn
from mixdown.scaling import SkipLimit
from mixdown.scaling.misuse import Usage
from mixdown.scaling.step_record import remember
from mixdown.tensorflow.loss_scaling.branching import in_xla
from mixdown.tensorflow.loss_scaling.gradients import agreed_finite, first_of, refuse_cross_replica, scaled, unscaler
from mixdown.tensorflow.loss_scaling.loss_scale import DynamicLossScale, FixedLossScale, get
from mixdown.tensorflow.loss_scaling.optimizers.scaled_optimizer import ScaledOptimizer, apply_or_skip
from mixdown.tensorflow.runtime.private import DelegatingTrackableMixin, strategy_supports_no_merge_call

Pairs = Sequence[tuple[Any, Any]]  # (gradient or None, variable)

OWN = {"_trackable", "_loss_scale", "_skips", "_names", "usage", "_gradients_were_unscaled", "_was_compiled"}
"""The attributes of the wrapper, with `_trackable`, which is the inner optimizer. All others are that one's."""

WRAPPED = "_is_wrapped_by_loss_scale_optimizer"
"""The mark tf_keras's own LossScaleOptimizer leaves on an optimizer: each refuses what the other has wrapped."""


def forwarded(name: str) -> property:
    """A property or method of the optimizer's base class that is the inner optimizer's instead."""
    return property(lambda optimizer: getattr(optimizer.inner_optimizer, name))


# In a checkpoint the wrapper stands where the inner optimizer would stand, with one more child, `loss_scale`: files
# written with the bare optimizer or with tf_keras's own LossScaleOptimizer can be read, and the other way round.
class TfKerasWrapper(ScaledOptimizer, DelegatingTrackableMixin):
    """Mixed into a tf_keras optimizer of the kind `INNER`."""

    INNER: type
    INNER_NAME: str

    iterations, learning_rate, lr = forwarded("iterations"), forwarded("learning_rate"), forwarded("lr")

    def __init__(self, inner_optimizer: Any, loss_scale: Any = "dynamic", *, skip_limit: int | None = None) -> None:
        if not isinstance(inner_optimizer, self.INNER):
            raise WrongTypeError(
                f"{type(self).__name__} needs a {self.INNER_NAME}, got {inner_optimizer!r}. "
                "mixdown.LossScaleOptimizer picks the class that fits an optimizer."
            )
        refuse_second_scale(inner_optimizer)
        scale, skips = get(loss_scale), SkipLimit(skip_limit)
        DelegatingTrackableMixin.__init__(self, inner_optimizer)
        self._loss_scale, self._skips = scale, skips
        self._names: dict[str, int] = {}
        self.usage, self._gradients_were_unscaled = Usage(), False
        self._was_compiled = False  # by XLA, where a step cannot call Python
        self._track_trackable(scale, "loss_scale")
        setattr(inner_optimizer, WRAPPED, True)
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
        return [*map(unscaler(self._loss_scale()), grads)]

    def _scaled_in(self, tape: Any, loss: Any) -> Any:
        """The scaled loss, on the tape that recorded the loss."""
        if callable(loss):
            return self.get_scaled_loss(loss)
        if tape is None:
            return loss  # the inner optimizer says what is missing
        with tape:
            return self.get_scaled_loss(loss)

    def _unscaled_pairs(self, pairs: Pairs) -> list[tuple[Any, Any]]:
        gradients = self.get_unscaled_gradients([gradient for gradient, _ in pairs])
        return list(zip(gradients, [variable for _, variable in pairs], strict=True))

    def apply_pairs(self, grads_and_vars: Iterable[tuple[Any, Any]], *, aggregate: bool, **settings: Any) -> Any:
        """Apply unscaled gradients if they are finite on every replica, else on none; count the step.

        `settings` are for the `apply_gradients` of the inner optimizer. Gives what to wait for, in a graph.
        """
        pairs: Pairs = list(grads_and_vars)
        if all(gradient is None for gradient, _ in pairs):
            return self.inner_optimizer.apply_gradients(pairs)  # it has nothing to do, or raises
        refuse_cross_replica("apply_gradients")
        pairs = list(self._prepared(pairs, aggregate=aggregate))
        self._warn_of_misuse()
        self._check_compiled_steps()
        self._was_compiled |= in_xla()
        return self._step(pairs, settings)

    def _step(self, pairs: Pairs, settings: dict[str, Any]) -> Any:
        gradients, variables = ([pair[at] for pair in pairs] for at in (0, 1))
        numbers = self._numbers(variables)

        def apply(gradients: list[Any]) -> Any:
            together = list(zip(gradients, variables, strict=True))
            return self.inner_optimizer.apply_gradients(together, **settings)

        def across_replicas(strategy: Any, finite: Any, gradients: list[Any]) -> Any:
            def apply_on_each() -> Any:
                done = strategy.extended.call_for_each_replica(apply, args=(gradients,))
                return effects(strategy.experimental_local_results(done))

            return apply_or_skip(self, first_of(finite), gradients, numbers, apply_on_each)

        checked = [each for each in gradients if each is not None]
        # `tf.clip_by_global_norm` makes NaN of every gradient if their norm is Inf, which large finite ones can reach.
        if self.global_clipnorm:
            checked.append(tf.linalg.global_norm(checked))
        finite = agreed_finite(checked)
        if strategy_supports_no_merge_call():
            return apply_or_skip(self, finite, gradients, numbers, lambda: effects(apply(gradients)))
        # Most strategies refuse a merge_call, such as the inner optimizer's, in a branch taken inside a replica.
        return tf.distribute.get_replica_context().merge_call(across_replicas, args=(finite, gradients))

    def _prepared(self, pairs: Pairs, *, aggregate: bool) -> Pairs:
        """The pairs to apply, aggregated if asked for, once the variables of the inner optimizer exist."""
        raise NotImplementedError

    def _warn_of_misuse(self) -> None:
        self.usage.note_first_applied()
        advice = MISUSE.get((self.usage.scaled, self._gradients_were_unscaled))
        if advice:
            self.usage.scaled = self._gradients_were_unscaled = True  # warn once
            warn(f"{advice} {RIGHT_USE}", LossScaleWarning)

    def _check_compiled_steps(self) -> None:
        if self._was_compiled and tf.executing_eagerly():
            self.check_skips()

    @property
    def loss_scale(self) -> tf.Tensor:
        """The scale of the next step, as a tensor, so that it may be used while a function is traced."""
        return self._loss_scale()

    skip_limit = property(lambda self: self._skips.limit, doc="Skips in a row after which `LossScaleError` is raised.")
    dynamic = property(lambda self: isinstance(self._loss_scale, DynamicLossScale), doc="Whether the scale changes.")
    initial_scale = property(lambda self: self._loss_scale.law.initial, doc="The scale of the first step.")

    @property
    def dynamic_counter(self) -> tf.Variable | None:
        """The variable behind `good_steps`; None if the scale is not dynamic."""
        return self._loss_scale.weight("good_steps") if self.dynamic else None

    @property
    def dynamic_growth_steps(self) -> int | None:
        """Finite steps in a row before the scale grows; None if the scale is not dynamic."""
        return self._loss_scale.law.increment_period if self.dynamic else None

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Set all variables; values for the inner optimizer's alone will do, and leave the loss scale as it is.

        Raises:
            ValueError: the number of values fits neither.
        """
        values, inner, own = list(weights), len(self.inner_optimizer.variables()), self._loss_scale.weights
        if len(values) not in (inner, inner + len(own)):
            raise ValueError(
                f"{type(self).__name__} has {inner} variables of its inner optimizer and {len(own)} of the loss "
                f"scale, got {len(values)} values. Pass values for all, or for the inner optimizer's alone."
            )
        self.inner_optimizer.set_weights(values[:inner])
        for variable, value in zip(own, values[inner:], strict=False):
            variable.assign(np.asarray(value))

    def get_config(self) -> dict[str, Any]:
        """What `from_config` needs; the current scale and the counters are variables, saved as such."""
        return {
            "inner_optimizer": tf_keras.optimizers.serialize(self.inner_optimizer),
            "loss_scale": tf_keras.saving.serialize_keras_object(self._loss_scale),
            "skip_limit": self._skips.limit,
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


def effects(done: Any) -> list[Any]:
    """What a graph can wait for, of what the inner optimizer returned."""
    if tf.executing_eagerly():
        return []
    return [each for each in tf.nest.flatten(done) if isinstance(each, tf.Operation) or tf.is_tensor(each)]
