"""The loss-scale optimizer for Keras 3 optimizers, on the TensorFlow and the JAX backend. Start with `apply`.

`scale_loss` multiplies the loss, `apply` divides the gradients again and lets the inner optimizer run, but only if all
of them are finite on every replica. A skipped step changes no weight, slot, accumulator or iteration count of the inner
optimizer, and so no schedule advances; it changes the scale and the books (`keras3_books`), nothing else.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, Self

import keras

from mixdown.scaling import Law, checked_limit
from mixdown.scaling.alarm import WARN_AT, Offenders
from mixdown.tensorflow.loss_scaling.misuse import DIVIDED, Usage
from mixdown.tensorflow.loss_scaling.optimizers.keras3_counters import Books
from mixdown.tensorflow.loss_scaling.optimizers.keras3_form import Form
from mixdown.tensorflow.loss_scaling.optimizers.laws import law_of
from mixdown.tensorflow.loss_scaling.optimizers.step_record import sound
from mixdown.tensorflow.loss_scaling.scaler_reports import remember

if keras.backend.backend() == "tensorflow":
    from mixdown.tensorflow.loss_scaling.optimizers import keras3_tensorflow as host
else:
    from mixdown.tensorflow.loss_scaling.optimizers import keras3_functional as host  # type: ignore[no-redef]


# Keras's own class is the base for what `isinstance` says of it: `compile` under the mixed_float16 policy wraps any
# optimizer that is not one, and MultiOptimizer refuses to hold one. Its arithmetic is not used.
@keras.saving.register_keras_serializable(package="mixdown")
class Keras3LossScaleOptimizer(Books, keras.optimizers.LossScaleOptimizer):
    """Scales the loss for an inner optimizer and skips every step whose gradients are not finite.

    With `gradient_accumulation_steps` on the inner optimizer a micro-batch with non-finite gradients is dropped: it
    neither enters the accumulator nor counts, and the update waits for as many finite micro-batches as were asked for.

    Args:
        inner_optimizer: the `keras.optimizers.Optimizer` that does the work.
        loss_scale: "dynamic", a number (a fixed scale) or a `mixdown.LossScale`, of which only the constants are used.
        skip_limit: skips in a row after which `LossScaleError` is raised; None to be warned once at 50. In a graph
            TensorFlow delivers the error as an `UnknownError` with its text. A step compiled by XLA cannot speak up
            itself: the error then comes when `fit` ends, or from the next call of `check_skips`, `scale_loss` or
            `apply` from Python.
        name: the name of this optimizer.

    Raises:
        TypeError: `inner_optimizer`, `loss_scale` or `skip_limit` is of a wrong type.
        ValueError: `inner_optimizer` scales the loss already, or a number is out of range.
    """

    now, tensor = staticmethod(host.now), staticmethod(host.tensor)

    def __init__(
        self,
        inner_optimizer: Any,
        loss_scale: Any = "dynamic",
        *,
        skip_limit: int | None = None,
        name: str | None = None,
    ) -> None:
        refuse_unless_bare(inner_optimizer)
        law, limit = law_of(loss_scale), checked_limit(skip_limit)
        super().__init__(inner_optimizer, law.initial, law.increment_period, name=name)
        self.law, self.skip_limit = law, limit
        self.alarm_is_late, self.alarm_was_heard = False, False
        self._form, self.usage = Form(), Usage()
        self.open_books()
        remember(self)

    def build(self, variables: Sequence[Any]) -> None:
        """Make the weights that depend on the model, here and in the inner optimizer."""
        if self.built:
            return
        variables = list(variables)
        if not self.inner_optimizer.built:
            self.inner_optimizer.build(variables)
        keras.optimizers.Optimizer.build(self, variables)

    @property
    def iterations(self) -> Any:
        """Steps applied so far."""
        return self.inner_optimizer.iterations

    def scale_loss(self, loss: Any) -> Any:
        """The loss times the current scale; differentiate this."""
        self._form.loss_was_scaled()
        self.usage.note_scaled()
        self._listen()
        return keras.ops.multiply(loss, self.dynamic_scale)

    def apply(self, grads: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> None:
        """Apply gradients of the scaled loss, or skip the step.

        Raises:
            ValueError: called in cross-replica context, without variables before `build`, or with unknown ones.
        """
        if not grads:
            return
        if trainable_variables is None:
            trainable_variables = self._trainable_variables if self.built else no_variables()
        if not self.built:
            self.build(trainable_variables)
        self.usage.note_applied(DIVIDED)
        self._listen()
        host.step(self, list(grads), list(trainable_variables), scaled=self._form.is_scaled(grads))

    def apply_gradients(self, grads_and_vars: Iterable[tuple[Any, Any]]) -> Any:
        """`apply` for pairs of gradient and variable; gives the number of steps applied so far."""
        grads, variables = zip(*grads_and_vars, strict=True)
        self.apply(grads, variables)
        return self.iterations

    def stateless_apply(
        self, optimizer_variables: list[Any], grads: Sequence[Any], trainable_variables: list[Any]
    ) -> tuple[list[Any], list[Any]]:
        """`apply` on values instead of variables, for backends that ask for it."""
        return host.stateless_step(
            self, optimizer_variables, grads, trainable_variables, scaled=self._form.is_scaled(grads)
        )

    def minimize(self, loss: Any, var_list: Sequence[Any], tape: Any = None) -> Any:
        """Differentiate a loss and apply its gradients, as before Keras 3; on the TensorFlow backend only.

        Args:
            loss: a callable without arguments, or a tensor that was computed under `tape`.
            var_list: the variables to train.
            tape: the `tf.GradientTape` of a loss that is not callable.

        Returns:
            The number of steps applied so far.
        """
        grads = host.gradients(self, loss, var_list, tape)
        return self.apply_gradients(zip(grads, var_list, strict=True))

    def get_scaled_loss(self, loss: Any) -> Any:
        """`scale_loss` under the name it had before Keras 3; a callable loss gives a callable."""
        return (lambda: self.scale_loss(loss())) if callable(loss) else self.scale_loss(loss)

    def get_unscaled_gradients(self, grads: Sequence[Any]) -> list[Any]:
        """The gradients of the loss itself, to look at or to clip, as before Keras 3.

        What is applied next is then taken to be unscaled, until `scale_loss` or `get_scaled_loss` is called: keep the
        scaling, the unscaling and `apply` in one function. The very tensors passed in here still count as scaled.
        """
        self._form.were_unscaled(grads)
        return self.unscaled(grads, [None] * len(grads))

    def unscaled(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """The gradients over the current scale; one that is to replace its variable (float8) is left alone."""
        scale = self.tensor(self.dynamic_scale)
        return [
            each if each is None or getattr(of, "overwrite_with_gradient", False) else host.unscaled(each, scale)
            for each, of in zip(gradients, variables, strict=True)
        ]

    def position(self, variable: Any) -> int:
        """Where a variable stands among the trained ones."""
        try:
            return self._get_variable_index(variable)
        except KeyError:
            raise ValueError(
                f"{getattr(variable, 'path', variable.name)} is not one of the variables this optimizer was built for. "
                "Make a new optimizer for a new set of variables."
            ) from None

    def check_skips(self) -> None:
        """Raise, or warn once, if too many steps in a row were skipped.

        Raises:
            LossScaleError: `skip_limit` is reached.
        """
        self.hear(self.skips_in_a_row, self.offending_variables)

    def hear(self, skips: int, found: Offenders) -> None:
        """Raise at the limit, or warn the first time it is due."""
        if self.skip_limit is not None:
            sound(skips, found, skip_limit=self.skip_limit)
        elif skips >= WARN_AT and not self.alarm_was_heard:
            self.alarm_was_heard = True
            sound(WARN_AT, found, skip_limit=None)

    @property
    def may_be_read(self) -> bool:
        """Whether the books can be read now: not while a function is traced, or passes their values around."""
        return host.may_read(self.skip_run)

    def _listen(self) -> None:
        if self.alarm_is_late and self.may_be_read:
            self.check_skips()

    def finalize_variable_values(self, var_list: Sequence[Any]) -> None:
        """What `fit` calls at its end: bring in moving averages, and hear the alarm of compiled steps."""
        super().finalize_variable_values(var_list)
        self._listen()

    def exclude_from_weight_decay(self, var_list: Any = None, var_names: Any = None) -> None:
        """Forwarded to the inner optimizer, which is the one that decays."""
        self.inner_optimizer.exclude_from_weight_decay(var_list=var_list, var_names=var_names)

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Give every weight in `variables` the value at its place."""
        for variable, value in zip(self.variables, weights, strict=True):
            variable.assign(value)

    def save_own_variables(self, store: Any) -> None:
        """Put the scale and the books into a Keras file; the inner optimizer has its own place there."""
        for at, variable in enumerate(self._variables):
            store[str(at)] = variable.numpy()

    def load_own_variables(self, store: Any) -> None:
        """Take the scale and the books from a Keras file."""
        for at, variable in enumerate(self._variables):
            variable.assign(store[str(at)])

    def get_config(self) -> dict[str, Any]:
        """What `from_config` needs; the current scale and the books are weights, saved as such."""
        return {
            "name": self.name,
            "inner_optimizer": keras.saving.serialize_keras_object(self.inner_optimizer),
            "loss_scale": asdict(self.law),
            "skip_limit": self.skip_limit,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> Self:
        """The optimizer that `get_config` described, without its weights."""
        inner = keras.saving.deserialize_keras_object(config["inner_optimizer"], custom_objects=custom_objects)
        rest = {key: value for key, value in config.items() if key not in ("inner_optimizer", "loss_scale")}
        return cls(inner, Law(**config["loss_scale"]), **rest)


def refuse_unless_bare(inner: Any) -> None:
    """Refuse an inner optimizer that scales the loss itself, or is none."""
    if not isinstance(inner, keras.optimizers.Optimizer):
        raise TypeError(
            f"Keras3LossScaleOptimizer needs a keras.optimizers.Optimizer, got {inner!r} of type "
            f"{type(inner).__name__}. mixdown.LossScaleOptimizer picks the class that fits an optimizer."
        )
    if isinstance(inner, keras.optimizers.LossScaleOptimizer):
        raise ValueError(  # noqa: TRY004 - of the right type, but taken
            f"LossScaleOptimizer cannot wrap {type(inner).__name__}, which scales the loss already. "
            "Pass its inner_optimizer instead."
        )
    if getattr(inner, "loss_scale_factor", None) is not None:
        raise ValueError(
            f"LossScaleOptimizer cannot wrap {inner.name}, which scales the loss by "
            f"loss_scale_factor={inner.loss_scale_factor} itself. Drop loss_scale_factor and pass "
            f"loss_scale={inner.loss_scale_factor} here for a fixed scale."
        )


def no_variables() -> Sequence[Any]:
    """Refuse gradients that cannot be matched to variables."""
    raise ValueError(
        "apply was given gradients without variables before the optimizer knew any. "
        "Pass trainable_variables, or call build(trainable_variables) first."
    )


def wrap(inner: Any, loss_scale: Any, *, skip_limit: int | None) -> Keras3LossScaleOptimizer:
    """The optimizer that `mixdown.LossScaleOptimizer` gives for a Keras 3 optimizer."""
    return Keras3LossScaleOptimizer(inner, loss_scale, skip_limit=skip_limit)
