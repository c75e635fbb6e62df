"""The loss-scale optimizer for Keras 3 optimizers, on the TensorFlow and the JAX backend. Start with `apply`.

`scale_loss` multiplies the loss, `apply` divides the gradients again and lets the inner optimizer run, but only if all
of them are finite on every replica. A skipped step changes no weight, slot, accumulator or iteration count of the inner
optimizer, and so no schedule advances; it changes the scale and the counters (`Keras3Counters`), nothing else.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from importlib import import_module
from typing import Any, Self

import keras

from mixdown.errors import WrongTypeError
from mixdown.keras3.counters import Keras3Counters
from mixdown.scaling import Law, SkipLimit
from mixdown.scaling.misuse import UNDIVIDED, Usage
from mixdown.scaling.step_record import remember

BACKENDS = {"tensorflow": "mixdown.tensorflow.loss_scaling.optimizers.keras3_tensorflow"}
"""Backend of Keras -> the module that takes a step on it; on all others state is passed around, by `functional`."""

TO_LOAD = "import mixdown.keras first, or pass compile=False to load_model"
"""What a saved file says to whom Keras cannot load it for."""


# Keras's own class is the base so that `isinstance` holds: `compile` under the mixed_float16 policy wraps any
# optimizer that is not one, and MultiOptimizer refuses to hold one. Its arithmetic is not used.
@keras.saving.register_keras_serializable(package="mixdown")
class Keras3LossScaleOptimizer(Keras3Counters, keras.optimizers.LossScaleOptimizer):
    """Scales the loss for an inner optimizer and skips every step whose gradients are not finite.

    With `gradient_accumulation_steps` on the inner optimizer a micro-batch with non-finite gradients is dropped: it
    neither enters the accumulator nor counts, and the update waits for as many finite micro-batches as were asked for.

    The arguments are those of `mixdown.LossScaleOptimizer`, with a `keras.optimizers.Optimizer` inside, and a name of
    its own. Of a loss scale of mixdown's or TensorFlow's only the constants are used.
    """

    __module__ = "mixdown.keras"  # saved files name it: loading one without it leads to the module to import
    backend: Any = import_module(BACKENDS.get(keras.backend.backend(), "mixdown.keras3.functional"))

    def __init__(
        self,
        inner_optimizer: Any,
        loss_scale: Any = "dynamic",
        *,
        skip_limit: int | None = None,
        name: str | None = None,
    ) -> None:
        refuse_unless_bare(inner_optimizer)
        law, skip_check = self.backend.law_of(loss_scale), SkipLimit(skip_limit)
        super().__init__(inner_optimizer, law.initial, law.increment_period, name=name)
        self.law, self.skip_check, self.usage = law, skip_check, Usage()
        self.was_compiled = False
        self.gradients_are_scaled = False  # those of the next `apply`: the loss was scaled, and they were not unscaled
        self.create_counters()
        remember(self)

    def build(self, variables: Sequence[Any]) -> None:
        """Make the weights that depend on the model, here and in the inner optimizer."""
        if self.built:
            return
        variables = list(variables)
        if not self.inner_optimizer.built:
            self.inner_optimizer.build(variables)
        keras.optimizers.Optimizer.build(self, variables)

    def __repr__(self) -> str:
        return f"<LossScaleOptimizer of {type(self.inner_optimizer).__name__}, {self.law.described}>"

    @property
    def iterations(self) -> Any:
        """Steps applied so far."""
        return self.inner_optimizer.iterations

    @property
    def skip_limit(self) -> int | None:
        """Skips in a row after which `LossScaleError` is raised."""
        return self.skip_check.limit

    def scale_loss(self, loss: Any) -> Any:
        """The loss times the current scale; differentiate this."""
        self.gradients_are_scaled = True
        self.usage.note_scaled(self.backend.functions())
        self._check_compiled_steps()
        return keras.ops.multiply(loss, self.dynamic_scale)

    def apply(self, grads: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> None:
        """Apply the gradients, or skip the step.

        They are divided by the scale if they can be those of a loss that `scale_loss` was given: eagerly, in the
        function that is being traced, or in one that applied no gradients itself. A function keeps what held when it
        was traced.

        Raises:
            CrossReplicaError: called in cross-replica context.
            ValueError: called without variables before `build`, or with unknown ones.
        """
        if not grads:
            return
        if trainable_variables is None and not self.built:
            raise ValueError(
                "apply was given gradients without variables before the optimizer knew any. "
                "Pass trainable_variables, or call build(trainable_variables) first."
            )
        if trainable_variables is None:
            trainable_variables = self._trainable_variables
        self.build(trainable_variables)
        scaled = self.usage.note_applied(UNDIVIDED, self.backend.functions()) and self.gradients_are_scaled
        self._check_compiled_steps()
        self.backend.step(self, list(grads), list(trainable_variables), scaled=scaled)

    def apply_gradients(self, grads_and_vars: Iterable[tuple[Any, Any]]) -> Any:
        """`apply` for pairs of gradient and variable; gives the number of steps applied so far."""
        grads, variables = zip(*grads_and_vars, strict=True)
        self.apply(grads, variables)
        return self.iterations

    def stateless_apply(
        self, optimizer_variables: list[Any], grads: Sequence[Any], trainable_variables: list[Any]
    ) -> tuple[list[Any], list[Any]]:
        """`apply` on values instead of variables, for backends such as JAX."""
        scaled = self.gradients_are_scaled
        return self.backend.stateless_step(self, optimizer_variables, grads, trainable_variables, scaled=scaled)

    def minimize(self, loss: Any, var_list: Sequence[Any], tape: Any = None) -> Any:
        """Differentiate a loss and apply its gradients, as before Keras 3; on the TensorFlow backend only.

        Args:
            loss: a callable without arguments, or a tensor that was computed under `tape`.
            var_list: the variables to train.
            tape: the `tf.GradientTape` of a loss that is not callable.

        Returns:
            The number of steps applied so far.
        """
        grads = self.backend.gradients(self, loss, var_list, tape)
        return self.apply_gradients(zip(grads, var_list, strict=True))

    def get_scaled_loss(self, loss: Any) -> Any:
        """`scale_loss` under the name it had before Keras 3; a callable loss gives a callable."""
        return (lambda: self.scale_loss(loss())) if callable(loss) else self.scale_loss(loss)

    def get_unscaled_gradients(self, grads: Sequence[Any]) -> list[Any]:
        """The gradients of the loss itself, to clip or process them, as before Keras 3.

        What is applied next is then taken to be unscaled, until `scale_loss` or `get_scaled_loss` is called: keep the
        scaling, the unscaling and `apply` in one function, and apply what this returns, not what was passed in.
        """
        self.gradients_are_scaled = False
        return self.unscaled(grads, [None] * len(grads))

    def unscaled(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """The gradients over the current scale; one that is to replace its variable (float8) is left alone."""
        unscaled = self.backend.unscaler(self.backend.tensor(self.dynamic_scale))
        return [
            each if each is None or getattr(variable, "overwrite_with_gradient", False) else unscaled(each)
            for each, variable in zip(gradients, variables, strict=True)
        ]

    def in_order(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """The gradients in the order of the trained variables, None for those that are not there."""
        ordered: list[Any] = [None] * len(self._trainable_variables)
        for gradient, variable in zip(gradients, variables, strict=True):
            try:
                ordered[self._get_variable_index(variable)] = gradient
            except KeyError:
                raise ValueError(
                    f"{getattr(variable, 'path', variable.name)} is not one of the variables this optimizer was built "
                    "for. Make a new optimizer for a new set of variables."
                ) from None
        return ordered

    def check_skips(self) -> None:
        """Raise, or warn once, if too many steps in a row were skipped.

        Raises:
            LossScaleError: `skip_limit` is reached.
        """
        self.skip_check.raise_or_warn(self.skips_in_a_row, self.offending_variables)

    @property
    def may_be_read(self) -> bool:
        """Whether the counters can be read now: not while a function is traced, or passes their values around."""
        return self.backend.may_read(self.skip_run)

    def _check_compiled_steps(self) -> None:
        if self.was_compiled and self.may_be_read:
            self.check_skips()

    def finalize_variable_values(self, var_list: Sequence[Any]) -> None:
        """What `fit` calls at its end: bring in moving averages, and check the skips of compiled steps."""
        super().finalize_variable_values(var_list)
        self._check_compiled_steps()

    def exclude_from_weight_decay(self, var_list: Any = None, var_names: Any = None) -> None:
        """Forwarded to the inner optimizer, which is the one that decays."""
        self.inner_optimizer.exclude_from_weight_decay(var_list=var_list, var_names=var_names)

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Give every weight in `variables` the value at its place."""
        for variable, value in zip(self.variables, weights, strict=True):
            variable.assign(value)

    def save_own_variables(self, store: Any) -> None:
        """Put the scale and the counters into a Keras file; the inner optimizer has its own place there."""
        for at, variable in enumerate(self._variables):
            store[str(at)] = variable.numpy()

    def load_own_variables(self, store: Any) -> None:
        """Take the scale and the counters from a Keras file."""
        for at, variable in enumerate(self._variables):
            variable.assign(store[str(at)])

    def get_config(self) -> dict[str, Any]:
        """What `from_config` needs; the current scale and the counters are weights, saved as such."""
        return {
            "to_load": TO_LOAD,  # Keras prints it if it does not know the class
            "name": self.name,
            "inner_optimizer": keras.saving.serialize_keras_object(self.inner_optimizer),
            "loss_scale": asdict(self.law),
            "skip_limit": self.skip_limit,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> Self:
        """The optimizer that `get_config` described, without its weights."""
        inner = keras.saving.deserialize_keras_object(config["inner_optimizer"], custom_objects=custom_objects)
        rest = {key: value for key, value in config.items() if key not in ("to_load", "inner_optimizer", "loss_scale")}
        return cls(inner, Law(**config["loss_scale"]), **rest)


def refuse_unless_bare(inner: Any) -> None:
    """Refuse what is no Keras optimizer, and one that scales the loss itself."""
    if not isinstance(inner, keras.optimizers.Optimizer):
        raise WrongTypeError(
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
