"""The loss-scale optimizers for tf_keras optimizers, new-style and legacy. Start with `apply_gradients`.

`minimize`, which is what `fit` calls, scales the loss inside the tape and unscales the gradients; `apply_gradients`
sums them over the replicas and lets the inner optimizer run (clip, decay, update, average), but only if all of them
are finite everywhere. A skipped step changes no variable, slot, moving average or iteration count, and so no schedule
advances.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from mixdown.tensorflow.loss_scaling.optimizers.tf_keras_wrapper import Pairs, TfKerasWrapper, forwarded


# tf_keras's own class is a base so that `isinstance` holds: `compile` under the mixed_float16 policy wraps any
# optimizer that is not one, and training loops check before they scale. It has no arithmetic.
@tf_keras.utils.register_keras_serializable(package="mixdown")
class TfKerasLossScaleOptimizer(
    TfKerasWrapper, tf_keras.optimizers.Optimizer, tf_keras.mixed_precision.LossScaleOptimizer
):
    """Scales the loss for an inner optimizer and skips every step whose gradients are not finite.

    The arguments are those of `mixdown.LossScaleOptimizer`, with a `tf_keras.optimizers.Optimizer` inside.
    """

    __module__ = "mixdown.tf_keras"  # saved files name it: loading one without it leads to the module to import
    INNER, INNER_NAME = tf_keras.optimizers.Optimizer, "tf_keras.optimizers.Optimizer"

    update_step = forwarded("update_step")
    aggregate_gradients = forwarded("aggregate_gradients")
    exclude_from_weight_decay = forwarded("exclude_from_weight_decay")

    def build(self, var_list: Sequence[Any]) -> None:
        """Make the variables of the inner optimizer."""
        self._numbers(var_list)  # in this order, whichever gets a gradient first
        self.inner_optimizer.build(var_list)

    def compute_gradients(self, loss: Any, var_list: Any, tape: Any = None) -> list[tuple[Any, Any]]:
        """Pairs of unscaled gradient and variable, computed from the scaled loss."""
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
            CrossReplicaError: called in cross-replica context.
            ValueError: no variable has a gradient.
        """
        aggregate = kwargs.get("experimental_aggregate_gradients", True) and not skip_gradients_aggregation
        self.apply_pairs(grads_and_vars, aggregate=aggregate, name=name, skip_gradients_aggregation=True)
        return self.iterations

    def _prepared(self, pairs: Pairs, *, aggregate: bool) -> Pairs:
        with tf.init_scope():
            self.build([variable for _, variable in pairs])
        return self.inner_optimizer.aggregate_gradients(pairs) if aggregate else pairs

    def finalize_variable_values(self, var_list: Sequence[Any]) -> None:
        """What `fit` calls at its end: bring in moving averages, and check the skips of compiled steps."""
        self.inner_optimizer.finalize_variable_values(var_list)
        self._check_compiled_steps()

    @property
    def variables(self) -> Any:
        """The variables of the inner optimizer, then those of the loss scale."""
        inner = self.inner_optimizer.variables
        return type(inner)([*inner, *self._loss_scale.weights])  # a list that may also be called

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


# tf_keras never writes the state of a legacy optimizer into a `.keras` file, wrapped or not; `.h5` files and
# checkpoints hold all of it.
@tf_keras.utils.register_keras_serializable(package="mixdown")
class TfKerasLegacyLossScaleOptimizer(
    TfKerasWrapper, tf_keras.optimizers.legacy.Optimizer, tf_keras.mixed_precision.LossScaleOptimizer
):
    """Scales the loss for an inner legacy optimizer and skips every step whose gradients are not finite.

    The arguments are those of `TfKerasLossScaleOptimizer`, with a `tf_keras.optimizers.legacy.Optimizer` inside.
    tf_keras does not call it when `fit` ends: the error of a compiled step comes from the next call from Python.
    """

    __module__ = "mixdown.tf_keras"
    INNER, INNER_NAME = tf_keras.optimizers.legacy.Optimizer, "tf_keras.optimizers.legacy.Optimizer"
    _HAS_AGGREGATE_GRAD = True  # apply_gradients takes experimental_aggregate_gradients

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
        self._numbers(var_list)  # in this order, whichever gets a gradient first
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
        """Apply unscaled gradients, or skip the step; in a graph, gives the operation that does so."""
        aggregate = experimental_aggregate_gradients
        done = self.apply_pairs(grads_and_vars, aggregate=aggregate, name=name, experimental_aggregate_gradients=False)
        return self.iterations if done is None else tf.group(done, name=name)

    def _prepared(self, pairs: Pairs, *, aggregate: bool) -> Pairs:
        pairs = [pair for pair in pairs if pair[0] is not None]
        with tf.init_scope():
            self._create_all_weights([variable for _, variable in pairs])
        if not aggregate:
            return pairs
        return self.inner_optimizer._aggregate_gradients(self.inner_optimizer._transform_unaggregated_gradients(pairs))

    @property
    def weights(self) -> list[Any]:
        """The variables of the inner optimizer, then those of the loss scale."""
        return [*self.inner_optimizer.weights, *self._loss_scale.weights]

    def variables(self) -> list[Any]:
        """`weights`, as a method."""
        return self.weights
