"""`MixedPrecisionLossScaleOptimizer`: loss scaling around a v1 optimizer. Start with `apply_gradients`."""

from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import tensorflow as tf

from mixdown.errors import WrongTypeError
from mixdown.scaling import SkipLimit
from mixdown.scaling.misuse import UNSCALED, Usage
from mixdown.scaling.step_record import remember
from mixdown.tensorflow.loss_scaling.gradients import (
    agreed_finite,
    concrete,
    first_of,
    refuse_cross_replica,
    scaled,
    summable,
    unscaler,
)
from mixdown.tensorflow.loss_scaling.loss_scale import LossScale, get
from mixdown.tensorflow.loss_scaling.optimizers.scaled_optimizer import ScaledOptimizer, apply_or_skip
from mixdown.tensorflow.loss_scaling.step_counters import home
from mixdown.tensorflow.runtime.private import V1LossScaleOptimizer

Optimizer: Any = tf.compat.v1.train.Optimizer
Pairs = Sequence[tuple[Any, Any]]  # (gradient or None, variable)


class MixedPrecisionLossScaleOptimizer(ScaledOptimizer, Optimizer):
    """A v1 optimizer that scales the loss, unscales the gradients, and skips steps that are not finite.

    Between `compute_gradients` and `apply_gradients` the gradients are unscaled: clip or accumulate them as usual.
    A step with an Inf or NaN in any gradient, on any replica, changes no variable, slot or `global_step`; it is
    counted, and a dynamic scale drops. That holds for a fixed scale too, which TensorFlow's class of this name
    applies unchecked; `FixedLossScale.update` itself still advises to apply, as documented.

    Works in v1 graphs with a Session, eagerly with a callable loss, in `tf.function`, and in replica context
    under MirroredStrategy, MultiWorkerMirroredStrategy and OneDeviceStrategy.

    Args:
        opt: the v1 optimizer to wrap.
        loss_scale: a number, "dynamic" or a `LossScale`; of TensorFlow's own loss scales, the values are taken over.
        skip_limit: raise `LossScaleError` when this many steps in a row were skipped, naming the variables; None
            warns at 50. When TensorFlow, not Python, runs the step (a Session or a tf.function), it delivers the
            error as `tf.errors.UnknownError` with the same text. A function with `jit_compile=True` cannot call
            Python: call `check_skips` after it, which raises it.

    Raises:
        WrongTypeError: `loss_scale` or `skip_limit` is of a wrong type.
        ValueError: `opt` is no v1 optimizer or is wrapped already, `loss_scale` is None or no usable scale.
    """

    def __init__(self, opt: Any, loss_scale: Any, *, skip_limit: int | None = None) -> None:
        refuse_unless_bare(opt)
        super().__init__(use_locking=opt._use_locking, name=opt.get_name())
        self._optimizer = opt
        self._loss_scale = get(loss_scale)
        self._skips = SkipLimit(skip_limit)
        self._names: dict[str, int] = {}
        self.usage = Usage()
        # The names of TensorFlow's own class, so that its checkpoints can be read.
        self._track_trackable(opt, "base_optimizer")
        self._track_trackable(self._loss_scale, "loss_scale")
        remember(self)

    @property
    def loss_scale(self) -> LossScale:
        """The loss scale; call it for the current value."""
        return self._loss_scale

    def minimize(  # noqa: PLR0917 - the documented signature
        self,
        loss: Any,
        global_step: Any = None,
        var_list: Any = None,
        gate_gradients: int = Optimizer.GATE_OP,
        aggregation_method: int | None = None,
        colocate_gradients_with_ops: bool = False,  # noqa: FBT001, FBT002 - the documented signature
        name: str | None = None,
        grad_loss: Any = None,
    ) -> Any:
        """`compute_gradients` and `apply_gradients` in one: see there for the arguments and what is returned.

        In eager execution the last arguments of `compute_gradients`, from `gate_gradients` on, are ignored.

        Raises:
            WrongTypeError: something in `var_list` is no variable.
        """
        refuse_unless_variables(var_list)
        how = (gate_gradients, aggregation_method, colocate_gradients_with_ops, grad_loss)
        pairs = self.compute_gradients(loss, var_list, *(() if tf.executing_eagerly() else how))
        return self.apply_gradients(pairs, global_step, name)

    def compute_gradients(  # noqa: PLR0917 - the documented signature
        self,
        loss: Any,
        var_list: Any = None,
        gate_gradients: int = Optimizer.GATE_OP,
        aggregation_method: int | None = None,
        colocate_gradients_with_ops: bool = False,  # noqa: FBT001, FBT002 - the documented signature
        grad_loss: Any = None,
    ) -> list[tuple[Any, Any]]:
        """The unscaled gradients of `loss`, computed from the scaled loss, each paired with its variable.

        Args:
            loss: a tensor, or a callable without arguments that returns one (the only choice when eager).
            var_list: the variables; by default all trainable ones.
            gate_gradients: `GATE_NONE`, `GATE_OP` or `GATE_GRAPH`.
            aggregation_method: how gradient terms are combined, of `tf.AggregationMethod`.
            colocate_gradients_with_ops: place gradients beside the ops they belong to.
            grad_loss: the gradient computed for `loss`, if it is not 1.

        Returns:
            Pairs of gradient and variable, for `apply_gradients`; the gradient is None where there is none.
        """
        scale = self._loss_scale()
        self.usage.note_scaled()
        pairs = self._optimizer.compute_gradients(
            loss=scaled(loss, scale),
            var_list=var_list,
            gate_gradients=gate_gradients,
            aggregation_method=aggregation_method,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
            grad_loss=grad_loss,
        )
        unscaled = unscaler(scale)
        return [(unscaled(gradient), variable) for gradient, variable in pairs]

    def apply_gradients(
        self, grads_and_vars: Iterable[tuple[Any, Any]], global_step: Any = None, name: str | None = None
    ) -> tf.Operation | None:
        """Apply the gradients if all are finite on all replicas; otherwise only count the skip.

        Args:
            grads_and_vars: pairs as returned by `compute_gradients`.
            global_step: a variable to increment by one if the gradients are applied.
            name: the name of the returned operation.

        Returns:
            The operation that does it, or None when executing eagerly: it is done.

        Raises:
            LossScaleError: `skip_limit` steps in a row were skipped.
            CrossReplicaError: called in cross-replica context.
            ValueError: there is no gradient at all.
        """
        refuse_cross_replica("apply_gradients()")
        pairs = [(concrete(gradient), variable) for gradient, variable in grads_and_vars]
        if all(gradient is None for gradient, _ in pairs):  # before the step is counted
            names = ", ".join(variable.name for _, variable in pairs) or "no variables given"
            raise ValueError(f"No gradients provided for any variable: {names}. Does the loss depend on them?")
        self.usage.note_applied(UNSCALED)
        checked = summable([gradient for gradient, _ in pairs])
        replica = tf.distribute.get_replica_context()
        return replica.merge_call(self._step, args=(agreed_finite(checked), checked, pairs, global_step, name))

    def _step(  # noqa: PLR0917 - merge_call passes them by position
        self, strategy: Any, finite: Any, checked: list[Any], pairs: Pairs, global_step: Any, name: str | None
    ) -> tf.Operation | None:
        """In cross-replica context: move the scale, count the step, apply or skip."""
        gradients, variables = zip(*pairs, strict=True)

        def apply_on_replica(gradients: Any, variables: Any, global_step: Any, name: str) -> Any:
            return self._optimizer.apply_gradients(list(zip(gradients, variables, strict=True)), global_step, name=name)

        def apply() -> list[Any]:
            arguments = (gradients, variables, global_step, f"{name or self.get_name()}-wrapped")
            done = strategy.extended.call_for_each_replica(apply_on_replica, args=arguments)
            return list(strategy.experimental_local_results(done))

        numbers = self._numbers(variables)
        outcome = apply_or_skip(self, first_of(finite), list(gradients), numbers, apply, checked=checked)
        return None if outcome is None else train_op(outcome, name or self.get_name())

    def get_name(self) -> str:
        """The name of the wrapped optimizer."""
        return self._optimizer.get_name()

    def get_slot(self, var: Any, name: str) -> tf.Variable | None:
        """The slot variable the wrapped optimizer keeps for `var` under that name, or None."""
        return self._optimizer.get_slot(var, name)

    def get_slot_names(self) -> list[str]:
        """The names of the wrapped optimizer's slots."""
        return self._optimizer.get_slot_names()

    def __dir__(self) -> list[str]:
        # tf.train.Checkpoint takes for the owner of slots whatever has get_slot_names in its dir(), and refuses two
        # owners of one slot: the wrapped optimizer is it.
        return [name for name in super().__dir__() if name != "get_slot_names"]

    def variables(self) -> list[tf.Variable]:
        """The wrapped optimizer's variables and the loss scale's, in the current graph."""
        return [*self._optimizer.variables(), *self._loss_scale.weights]

    def _apply_dense(self, *_: Any) -> NoReturn:
        raise RuntimeError(
            "MixedPrecisionLossScaleOptimizer applies nothing variable by variable: the optimizer it wraps does. "
            "Call apply_gradients()."
        )

    _apply_sparse = _resource_apply_dense = _resource_apply_sparse = _apply_dense


def train_op(outcome: tf.Tensor, name: str) -> tf.Operation:
    """The operation a v1 graph runs to take a step, added to its collection of train ops."""
    operation = tf.group(outcome, name=name)
    if operation.graph is home():
        train_ops = tf.compat.v1.get_collection_ref(tf.compat.v1.GraphKeys.TRAIN_OP)
        # The wrapped optimizer put its own operation there, which lives in a branch and cannot be run by itself.
        train_ops[:] = [*(each for each in train_ops if each.graph is operation.graph), operation]
    return operation


def refuse_unless_bare(opt: Any) -> None:
    """Refuse what is no v1 optimizer, and what scales the loss already."""
    if isinstance(opt, (MixedPrecisionLossScaleOptimizer, V1LossScaleOptimizer)):
        raise ValueError(  # noqa: TRY004 - as documented for enable_mixed_precision_graph_rewrite
            f'"opt" must not already be an instance of a {type(opt).__name__}. '
            "A second one would scale the loss twice: pass the optimizer it wraps, or use it as it is."
        )
    if not isinstance(opt, Optimizer):
        raise WrongTypeError(
            f'"opt" must be an instance of Optimizer (tf.compat.v1.train), but got: {opt!r} of type '
            f"{type(opt).__name__}. For Keras optimizers use mixdown.LossScaleOptimizer."
        )


def refuse_unless_variables(var_list: Any) -> None:
    """Refuse a list in which something is no variable; None stands for all variables there are."""
    for each in [] if var_list is None else tf.nest.flatten(var_list):
        if not isinstance(each, tf.Variable):
            raise WrongTypeError(
                f"var_list must hold tf.Variable objects, got {each!r} of type {type(each).__name__}. For gradients "
                "with respect to other tensors, call compute_gradients."
            )
