"""The loss-scale optimizer for new-style tf_keras optimizers. Start with `apply_gradients`.

`minimize`, which is what `fit` calls, scales the loss inside the tape and unscales the gradients; `apply_gradients`
sums them over the replicas and lets the inner optimizer run (clip, decay, update, average), but only if all of them
are finite everywhere. A skipped step changes no variable, slot, moving average or iteration count, and so no schedule
advances.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from mixdown.tensorflow.loss_scaling.optimizers.tf_keras_scaling import Scaling, forwarded, refuse_cross_replica


def wrap(inner: Any, loss_scale: Any, *, skip_limit: int | None) -> "TfKerasLossScaleOptimizer":
    """The new-style tf_keras optimizer that scales the loss for `inner`."""
    return TfKerasLossScaleOptimizer(inner, loss_scale, skip_limit=skip_limit)


# tf_keras's own class is a base for what `isinstance` says of it: `compile` under the mixed_float16 policy wraps any
# optimizer that is not one, and training loops ask before they scale. It has no arithmetic.
@tf_keras.utils.register_keras_serializable(package="mixdown")
class TfKerasLossScaleOptimizer(Scaling, tf_keras.optimizers.Optimizer, tf_keras.mixed_precision.LossScaleOptimizer):
    """Scales the loss for an inner optimizer and skips every step whose gradients are not finite.

    Args:
        inner_optimizer: the `tf_keras.optimizers.Optimizer` that does the work.
        loss_scale: "dynamic", a number (a fixed scale) or a `mixdown.LossScale`.
        skip_limit: skips in a row after which `LossScaleError` is raised; None to be warned once at 50. In a graph
            TensorFlow delivers the error as an `UnknownError` with its text. A step compiled by XLA cannot speak up
            itself: the error then comes when `fit` ends, or from the next call of `check_skips` or `apply_gradients`
            from Python.

    Raises:
        TypeError: `inner_optimizer` is not a new-style tf_keras optimizer.
        ValueError: it scales the loss already, or another loss-scale optimizer wraps it.
    """

    def __init__(self, inner_optimizer: Any, loss_scale: Any = "dynamic", *, skip_limit: int | None = None) -> None:
        if not isinstance(inner_optimizer, tf_keras.optimizers.Optimizer):
            raise TypeError(
                f"TfKerasLossScaleOptimizer needs a tf_keras.optimizers.Optimizer, got {inner_optimizer!r}. "
                "mixdown.LossScaleOptimizer picks the class that fits an optimizer."
            )
        self._take(inner_optimizer, loss_scale, skip_limit)

    iterations = forwarded("iterations")
    learning_rate = forwarded("learning_rate")
    lr = forwarded("lr")
    update_step = forwarded("update_step")
    aggregate_gradients = forwarded("aggregate_gradients")
    exclude_from_weight_decay = forwarded("exclude_from_weight_decay")

    def build(self, var_list: Sequence[Any]) -> None:
        """Make the variables of the inner optimizer."""
        self._numbers(var_list)  # in this order, whoever gets gradients first
        self.inner_optimizer.build(var_list)

    def compute_gradients(self, loss: Any, var_list: Any, tape: Any = None) -> list[tuple[Any, Any]]:
        """Pairs of unscaled gradient and variable, by way of the scaled loss."""
        return self._unscaled_pairs(self.inner_optimizer.compute_gradients(self._scaled_in(tape, loss), var_list, tape))

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Any, Any]],
        name: str | None = None,
        skip_gradients_aggregation: bool = False,  # noqa: FBT001, FBT002 - the signature of tf_keras
        **kwargs: Any,
    ) -> Any:
        """Apply unscaled gradients, or skip the step; gives the number of steps applied so far.

        Raises:
            RuntimeError: called in cross-replica context.
            ValueError: no variable has a gradient.
        """
        pairs = list(grads_and_vars)
        if all(gradient is None for gradient, _ in pairs):
            return self.inner_optimizer.apply_gradients(pairs)  # nothing to do, or its own complaint
        refuse_cross_replica()
        variables = [variable for _, variable in pairs]
        with tf.init_scope():
            self.build(variables)
        if kwargs.get("experimental_aggregate_gradients", True) and not skip_gradients_aggregation:
            pairs = self.inner_optimizer.aggregate_gradients(pairs)

        def apply(gradients: list[Any]) -> Any:
            together = list(zip(gradients, variables, strict=True))
            return self.inner_optimizer.apply_gradients(together, name=name, skip_gradients_aggregation=True)

        self._step(pairs, apply)
        return self.iterations

    def finalize_variable_values(self, var_list: Sequence[Any]) -> None:
        """What `fit` calls at its end: bring in moving averages, and hear the alarm of compiled steps."""
        self.inner_optimizer.finalize_variable_values(var_list)
        self._listen()

    @property
    def variables(self) -> Any:
        """The variables of the inner optimizer, then those of the loss scale."""
        inner = self.inner_optimizer.variables
        return type(inner)([*inner, *self._loss_scale.weights])  # a list that may also be called

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Set `variables`; values for the inner optimizer's alone will do, and leave the loss scale as it is.

        Raises:
            ValueError: the number of values fits neither.
        """
        self._set_values(list(weights), self.inner_optimizer.variables)

    def save_own_variables(self, store: Any) -> None:
        """Save the loss scale; tf_keras saves the inner optimizer as a child."""
        for name, variable in self._loss_scale.create().items():
            store[name] = variable.numpy()

    def load_own_variables(self, store: Any) -> None:
        """Load the loss scale; a file written with a bare optimizer holds that one's variables here instead."""
        held = self._loss_scale.create()
        if not held.keys() & set(store.keys()):
            self.inner_optimizer.load_own_variables(store)
        for name in held.keys() & set(store.keys()):
            held[name].assign(store[name])
