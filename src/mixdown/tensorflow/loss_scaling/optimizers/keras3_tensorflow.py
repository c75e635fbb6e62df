"""One step of a Keras 3 loss-scale optimizer on TensorFlow. Read `step` first.

A step is one pass over the gradients to learn whether they are finite, one agreement between the replicas, one branch:
nearly always the gradients are unscaled and the inner optimizer runs; otherwise nothing does.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, NoReturn
from weakref import WeakMethod

import tensorflow as tf

from mixdown.scaling.alarm import WARN_AT
from mixdown.scaling.skip_log import HEAD, offenders, place
from mixdown.tensorflow.loss_scaling import finite
from mixdown.tensorflow.loss_scaling.branching import either, in_xla, where
from mixdown.tensorflow.loss_scaling.step_counters import encoded
from mixdown.tensorflow.runtime.private import strategy_supports_no_merge_call

Gradients = Sequence[Any]  # of tf.Tensor, tf.IndexedSlices or None


def step(optimizer: Any, gradients: Gradients, variables: Sequence[Any], *, scaled: bool) -> None:
    """Apply the gradients if they are finite on every replica, else on none; enter the outcome in the books."""
    refuse_cross_replica(optimizer)
    ordered = in_order(optimizer, gradients, variables)

    def apply(gradients: Gradients, variables: Sequence[Any]) -> None:
        applicable = optimizer.unscaled(gradients, variables) if scaled else gradients
        optimizer.inner_optimizer.apply(applicable, variables)

    def across_replicas(strategy: Any, ordered: Gradients, *pairs: Any) -> None:
        each_replica = strategy.extended.call_for_each_replica
        settle(optimizer, finite.on_each_replica(agreed_codes, ordered), lambda: each_replica(apply, args=pairs))

    # Where the inner optimizer needs a merge_call, none of it may happen in a branch taken inside a replica.
    if strategy_supports_no_merge_call():
        settle(optimizer, agreed_codes(ordered), lambda: apply(gradients, variables))
    else:
        tf.distribute.get_replica_context().merge_call(across_replicas, args=(ordered, gradients, variables))


def settle(optimizer: Any, codes: tf.Tensor, apply: Callable[[], None]) -> None:
    """Take the branch the codes ask for. Each keeps its own books: what is known in a branch need not be computed."""

    def applied() -> None:
        apply()
        optimizer.enter(finite=True, where=where)

    def skipped() -> None:
        optimizer.enter(finite=False, where=where)
        optimizer.log_skip(encoded(range(codes.shape[0]), codes), finite=False, where=where)
        raise_alarm(optimizer)

    either(tf.reduce_all(tf.equal(codes, 0)), applied, skipped)


def agreed_codes(gradients: Gradients) -> tf.Tensor:
    """One code a gradient, the same on every replica: 0 finite, 1 holds Inf, 2 holds NaN, 3 holds both, somewhere.

    The sum of numbers is finite only if each of them is, and it is the cheapest pass over them there is. A closer look
    follows only if the sum is not finite: at a bad gradient, or (seldom) at finite ones whose sum overflows.
    """
    nothing_found = tf.zeros([len(gradients)], tf.int32)
    local = tf.cond(tf.math.is_finite(total(gradients)), lambda: nothing_found, lambda: aside(finite.codes, gradients))
    return finite.agreed_codes(local)


def total(gradients: Gradients) -> tf.Tensor:
    """The sum of all numbers in all gradients. Gradients of one shape are first added to each other: fewer ops."""
    alike = defaultdict(list)
    for each in (finite.values(gradient) for gradient in gradients if gradient is not None):
        alike[each.dtype, tuple(each.shape) if each.shape.is_fully_defined() else object()].append(each)
    sums = [tf.cast(tf.reduce_sum(tf.add_n(group)), tf.float32) for group in alike.values()]
    return tf.add_n(sums) if sums else tf.constant(0.0)


def aside(function: Callable[[Gradients], tf.Tensor], gradients: Gradients) -> tf.Tensor:
    """A function called as such: in the branch not taken, TensorFlow still visits every op, and so there is but one."""
    if tf.executing_eagerly() or in_xla():
        return function(gradients)
    return tf.function(lambda: function(gradients), autograph=False, experimental_attributes={"_noinline": True})()


def in_order(optimizer: Any, gradients: Gradients, variables: Sequence[Any]) -> list[Any]:
    """The gradients in the order of the trained variables, None for those that are not there."""
    ordered = [None] * len(optimizer._trainable_variables)
    for gradient, variable in zip(gradients, variables, strict=True):
        ordered[optimizer.position(variable)] = gradient
    return ordered


def gradients(optimizer: Any, loss: Any, variables: Sequence[Any], tape: Any) -> Gradients:
    """The gradients of the scaled loss."""
    if tape is None and not callable(loss):
        raise ValueError("minimize needs a callable loss, or the tape= under which the loss was computed.")
    tape = tape or tf.GradientTape()
    with tape:
        scaled_loss = optimizer.scale_loss(loss() if callable(loss) else loss)
    return tape.gradient(scaled_loss, list(variables))


def unscaled(gradient: Any, scale: tf.Tensor) -> Any:
    """The gradient divided by the scale; sparse stays sparse."""
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(divided(gradient.values, scale), gradient.indices, gradient.dense_shape)
    return divided(tf.convert_to_tensor(gradient), scale)


def divided(numbers: tf.Tensor, scale: tf.Tensor) -> tf.Tensor:
    """Divided, not multiplied by the inverse: the inverse of 2**127 is no normal float32, and half holds neither."""
    wide = tf.float64 if numbers.dtype == tf.float64 else tf.float32
    return tf.cast(tf.cast(numbers, wide) / tf.cast(scale, wide), numbers.dtype)


def raise_alarm(optimizer: Any) -> None:
    """Speak up when too many steps in a row were skipped, from inside the step where that can be done."""
    if tf.executing_eagerly():
        optimizer.check_skips()
    elif in_xla():
        optimizer.alarm_is_late = True  # a compiled step cannot call Python: heard at the next call from Python
    else:
        raise_alarm_in_graph(optimizer)


def raise_alarm_in_graph(optimizer: Any) -> None:
    """The same by a call back to Python."""
    names, limit = optimizer.variable_names(), optimizer.skip_limit
    skips, count, log = map(tensor, (optimizer.skip_run, optimizer.skip_counter, optimizer.skip_log))

    # TensorFlow keeps what a graph calls as long as the process lives: it must not hold the optimizer.
    hear = WeakMethod(optimizer.hear)

    def alarm(skips: Any, entries: Any) -> None:
        listener = hear()
        if listener is not None:
            listener(int(skips), offenders(entries, names))

    too_many = skips >= (WARN_AT if limit is None else limit)
    either(too_many, lambda: tf.numpy_function(alarm, [skips, log[place(count), HEAD:]], []), lambda: None)


def tensor(weight: Any) -> tf.Tensor:
    """The value of a weight. Not `keras.ops.convert_to_tensor`, which gives the weight itself."""
    return tf.convert_to_tensor(weight)


def now(weight: Any) -> Any:
    """The value of a weight: a Python number, or a tensor while a function is being traced."""
    value = tensor(weight)
    return value.numpy().item() if tf.executing_eagerly() else value


def may_read(_: Any) -> bool:
    """Whether the value of a weight can be had now: not while a function is being traced."""
    return bool(tf.executing_eagerly())


def stateless_step(*_: Any, **__: Any) -> NoReturn:
    """Refuse, as every Keras optimizer does on TensorFlow."""
    raise ValueError("stateless_apply is for backends such as JAX; on TensorFlow call apply.")


def refuse_cross_replica(optimizer: Any) -> None:
    """Refuse a call that is not made on behalf of one replica."""
    if tf.distribute.in_cross_replica_context():
        raise ValueError(
            f"{type(optimizer).__name__}.apply must be called in replica context, got cross-replica context. "
            "Move the call into the function that is passed to strategy.run."
        )
