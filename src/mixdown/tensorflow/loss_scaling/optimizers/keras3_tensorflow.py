"""A step of `Keras3LossScaleOptimizer` on TensorFlow, with the functions of `keras3.functional`. Read `step` first.

A step is one pass over the gradients to learn whether they are finite, one agreement between the replicas, one branch:
nearly always the gradients are unscaled and the inner optimizer runs; otherwise nothing does.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import tensorflow as tf

from mixdown.scaling.step_counters import HEAD, row_of
from mixdown.tensorflow.loss_scaling.branching import either, in_xla, where
from mixdown.tensorflow.loss_scaling.gradients import agreed_codes, codes, refuse_cross_replica, unscaler, values
from mixdown.tensorflow.loss_scaling.loss_scale import law_of
from mixdown.tensorflow.loss_scaling.step_counters import log_entries, raise_or_warn
from mixdown.tensorflow.runtime.private import strategy_supports_no_merge_call

__all__ = ["functions", "gradients", "law_of", "may_read", "now", "stateless_step", "step", "tensor", "unscaler"]

Gradients = Sequence[Any]  # of tf.Tensor, tf.IndexedSlices or None


def step(optimizer: Any, gradients: Gradients, variables: Sequence[Any], *, scaled: bool) -> None:
    """Apply the gradients if they are finite on every replica, else on none; count the step."""
    refuse_cross_replica(f"{type(optimizer).__name__}.apply")
    ordered = optimizer.in_order(gradients, variables)

    def apply(gradients: Gradients, variables: Sequence[Any]) -> None:
        applicable = optimizer.unscaled(gradients, variables) if scaled else gradients
        optimizer.inner_optimizer.apply(applicable, variables)

    def across_replicas(strategy: Any, ordered: Gradients, *pairs: Any) -> None:
        each_replica = strategy.extended.call_for_each_replica
        apply_or_skip(optimizer, agreed_codes(ordered, quick_codes), lambda: each_replica(apply, args=pairs))

    # Where the inner optimizer needs a merge_call, none of it may happen in a branch taken inside a replica.
    if strategy_supports_no_merge_call():
        apply_or_skip(optimizer, agreed_codes(ordered, quick_codes), lambda: apply(gradients, variables))
    else:
        tf.distribute.get_replica_context().merge_call(across_replicas, args=(ordered, gradients, variables))


def apply_or_skip(optimizer: Any, codes: tf.Tensor, apply: Callable[[], None]) -> None:
    """Take the branch the codes ask for. Each counts by itself: what is constant in a branch need not be computed."""

    def applied() -> None:
        apply()
        optimizer.count_step(finite=True, where=where)

    def skipped() -> None:
        optimizer.count_step(finite=False, where=where)
        optimizer.log_skip(log_entries(range(codes.shape[0]), codes), finite=False, where=where)
        optimizer.was_compiled |= in_xla()  # then skips are checked at the next call from Python
        run, count, log = map(tensor, (optimizer.skip_run, optimizer.skip_counter, optimizer.skip_log))
        # Read from the log, so that the step is logged before an error is raised.
        raise_or_warn(optimizer.skip_check, optimizer.variable_names(), run, log[row_of(count), HEAD:])

    either(tf.reduce_all(tf.equal(codes, 0)), applied, skipped)


def quick_codes(gradients: Gradients) -> tf.Tensor:
    """The `codes` of gradients, from one pass over their numbers if they are finite.

    The sum of numbers is finite only if each of them is, and it is the cheapest pass over them there is. A closer look
    follows only if the sum is not finite: at a bad gradient, or (seldom) at finite ones whose sum overflows. XLA looks
    as closely in one pass, and would compile a second one, taken or not.
    """
    if in_xla():
        return codes(gradients)
    nothing_found = tf.zeros([len(gradients)], tf.int32)
    return tf.cond(tf.math.is_finite(total(gradients)), lambda: nothing_found, lambda: outlined(codes, gradients))


def total(gradients: Gradients) -> tf.Tensor:
    """The sum of all numbers in all gradients. Gradients of one shape are first added to each other: fewer ops."""
    alike = defaultdict(list)
    for each in (values(gradient) for gradient in gradients if gradient is not None):
        alike[each.dtype, tuple(each.shape) if each.shape.is_fully_defined() else object()].append(each)
    sums = [tf.cast(tf.reduce_sum(tf.add_n(group)), tf.float32) for group in alike.values()]
    return tf.add_n(sums) if sums else tf.constant(0.0)


def outlined(function: Callable[[Gradients], tf.Tensor], gradients: Gradients) -> tf.Tensor:
    """The result of a function, as one call op: TensorFlow visits every op of a branch, even of one not taken."""
    if tf.executing_eagerly():
        return function(gradients)
    return tf.function(lambda: function(gradients), autograph=False, experimental_attributes={"_noinline": True})()


def gradients(optimizer: Any, loss: Any, variables: Sequence[Any], tape: Any) -> Gradients:
    """The gradients of the scaled loss."""
    if tape is None and not callable(loss):
        raise ValueError("minimize needs a callable loss, or the tape= under which the loss was computed.")
    tape = tape or tf.GradientTape()
    with tape:
        scaled_loss = optimizer.scale_loss(loss() if callable(loss) else loss)
    return tape.gradient(scaled_loss, list(variables))


def functions() -> list[tf.Graph]:
    """The functions that are being traced, innermost first."""
    if tf.executing_eagerly():
        return []
    found = [tf.compat.v1.get_default_graph()]
    while hasattr(found[-1], "outer_graph"):
        found.append(found[-1].outer_graph)
    return found[:-1]


def tensor(weight: Any) -> tf.Tensor:
    """The value of a weight. Not `keras.ops.convert_to_tensor`, which gives the weight itself."""
    return tf.convert_to_tensor(weight)


def now(weight: Any) -> Any:
    """The value of a weight: a Python number, or a tensor while a function is being traced."""
    value = tensor(weight)
    return value.numpy().item() if tf.executing_eagerly() else value


def may_read(_: Any) -> bool:
    """Whether the value of a weight can be read now: not while a function is being traced."""
    return bool(tf.executing_eagerly())


def stateless_step(*_: Any, **__: Any) -> NoReturn:
    """Refuse, as every Keras optimizer does on TensorFlow."""
    raise ValueError("stateless_apply is for backends such as JAX; on TensorFlow call apply.")
