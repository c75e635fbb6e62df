"""The loss-scale optimizer for `tf_keras.optimizers.legacy`. Start with `apply_gradients`.

It does what its new-style sibling in `tf_keras` does, in the words of the older base class: slots, hyperparameters,
`weights`. tf_keras never writes the state of a legacy optimizer into a `.keras` file, wrapped or not; `.h5` files and
checkpoints hold all of it.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from mixdown.tensorflow.loss_scaling.optimizers.tf_keras_scaling import Scaling, forwarded, refuse_cross_replica


def wrap(inner: Any, loss_scale: Any, *, skip_limit: int | None) -> "TfKerasLegacyLossScaleOptimizer":
    """The legacy tf_keras optimizer that scales the loss for `inner`."""
    return TfKerasLegacyLossScaleOptimizer(inner, loss_scale, skip_limit=skip_limit)


@tf_keras.utils.register_keras_serializable(package="mixdown")
class TfKerasLegacyLossScaleOptimizer(
    Scaling, tf_keras.optimizers.legacy.Optimizer, tf_keras.mixed_precision.LossScaleOptimizer
):
    """Scales the loss for an inner legacy optimizer and skips every step whose gradients are not finite.

    Args:
        inner_optimizer: the `tf_keras.optimizers.legacy.Optimizer` that does the work.
        loss_scale: "dynamic", a number (a fixed scale) or a `mixdown.LossScale`.
        skip_limit: skips in a row after which `LossScaleError` is raised; None to be warned once at 50. In a graph
            TensorFlow delivers the error as an `UnknownError` with its text. A step compiled by XLA cannot speak up
            itself: the error then comes from the next call of `check_skips` or `apply_gradients` from Python.

    Raises:
        TypeError: `inner_optimizer` is not a legacy tf_keras optimizer.
        ValueError: it scales the loss already, or another loss-scale optimizer wraps it.
    """

    _HAS_AGGREGATE_GRAD = True  # tells tf_keras that apply_gradients takes experimental_aggregate_gradients

    def __init__(self, inner_optimizer: Any, loss_scale: Any = "dynamic", *, skip_limit: int | None = None) -> None:
        if not isinstance(inner_optimizer, tf_keras.optimizers.legacy.Optimizer):
            raise TypeError(
                f"TfKerasLegacyLossScaleOptimizer needs a tf_keras.optimizers.legacy.Optimizer, got "
                f"{inner_optimizer!r}. mixdown.LossScaleOptimizer picks the class that fits an optimizer."
            )
        self._take(inner_optimizer, loss_scale, skip_limit)

    iterations = forwarded("iterations")
    learning_rate = forwarded("learning_rate")
    lr = forwarded("lr")
    clipnorm = forwarded("clipnorm")
    global_clipnorm = forwarded("global_clipnorm")
    clipvalue = forwarded("clipvalue")
    get_slot = forwarded("get_slot")
    get_slot_names = forwarded("get_slot_names")
    add_slot = forwarded("add_slot")
    _get_hyper = forwarded("_get_hyper")
    _set_hyper = forwarded("_set_hyper")
    _aggregate_gradients = forwarded("_aggregate_gradients")
    _restore_slot_variable = forwarded("_restore_slot_variable")
    _create_or_restore_slot_variable = forwarded("_create_or_restore_slot_variable")

    def _create_all_weights(self, var_list: Sequence[Any]) -> None:
        self._numbers(var_list)  # in this order, whoever gets gradients first
        self.inner_optimizer._create_all_weights(var_list)

    def _compute_gradients(
        self, loss: Any, var_list: Any, grad_loss: Any = None, tape: Any = None
    ) -> list[tuple[Any, Any]]:
        pairs = self.inner_optimizer._compute_gradients(self._scaled_in(tape, loss), var_list, grad_loss, tape)
        return self._unscaled_pairs(pairs)

    def get_gradients(self, loss: Any, params: Any) -> list[Any]:
        """Unscaled gradients in a v1 graph."""
        return self.get_unscaled_gradients(self.inner_optimizer.get_gradients(self.get_scaled_loss(loss), params))

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Any, Any]],
        name: str | None = None,
        experimental_aggregate_gradients: bool = True,  # noqa: FBT001, FBT002 - the signature of tf_keras
    ) -> Any:
        """Apply unscaled gradients, or skip the step; in a graph, gives the operation that does so.

        Raises:
            RuntimeError: called in cross-replica context.
            ValueError: no variable has a gradient.
        """
        pairs = list(grads_and_vars)
        if all(gradient is None for gradient, _ in pairs):
            return self.inner_optimizer.apply_gradients(pairs)  # nothing to do, or its own complaint
        refuse_cross_replica()
        pairs = [(gradient, variable) for gradient, variable in pairs if gradient is not None]
        variables = [variable for _, variable in pairs]
        with tf.init_scope():
            self._create_all_weights(variables)
        if experimental_aggregate_gradients:
            pairs = self.inner_optimizer._transform_unaggregated_gradients(pairs)
            pairs = self.inner_optimizer._aggregate_gradients(pairs)

        def apply(gradients: list[Any]) -> Any:
            together = list(zip(gradients, variables, strict=True))
            return self.inner_optimizer.apply_gradients(together, name=name, experimental_aggregate_gradients=False)

        done = self._step(pairs, apply)
        return self.iterations if done is None else tf.group(done, name=name)

    @property
    def weights(self) -> list[Any]:
        """The variables of the inner optimizer, then those of the loss scale."""
        return [*self.inner_optimizer.weights, *self._loss_scale.weights]

    def variables(self) -> list[Any]:
        """`weights`, as a method."""
        return self.weights

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Set `weights`; values for the inner optimizer's alone will do, and leave the loss scale as it is.

        Raises:
            ValueError: the number of values fits neither.
        """
        self._set_values(list(weights), self.inner_optimizer.weights)
