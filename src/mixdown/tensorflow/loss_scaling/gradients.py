"""What is done to a loss and its gradients: `scaled`, `unscaler`, and the finite check of all replicas together.

Gradients are dense tensors of any float dtype, IndexedSlices (their values count) or None (ignored). `agreed_finite`
runs at every step; `agreed_codes` only after it returned False. XLA compiles a kernel for every pass over a gradient:
where it compiles, both take one pass, and an unscaled gradient none of its own.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import tensorflow as tf

from mixdown.errors import CrossReplicaError
from mixdown.scaling.machine import divided
from mixdown.tensorflow.loss_scaling.branching import in_xla, where
from mixdown.tensorflow.runtime.private import xla_variadic_reduce

Gradient = Any  # tf.Tensor, tf.IndexedSlices or None; across replicas, a tf.distribute.DistributedValues of them


def scaled(loss: Any, scale: tf.Tensor) -> Any:
    """The loss times the scale, in the dtype of the loss; of a callable, a callable."""
    if callable(loss):
        return lambda: scaled(loss(), scale)
    loss = tf.convert_to_tensor(loss)
    return loss * tf.cast(scale, loss.dtype)


def unscaler(scale: tf.Tensor) -> Callable[[Gradient], Gradient]:
    """What divides a gradient by the scale, in its own dtype; sparse stays sparse, None stays None.

    XLA writes a quotient to memory before it is used, but not a product. For powers of two, which scales are unless
    somebody chose another, the product with the reciprocal is the quotient to the bit.
    """
    compiled = in_xla()
    if compiled:
        shrink = where(scale > 2.0**64, 2.0**-64, 1.0)  # or the reciprocal of 2**127 is subnormal, and flushed to 0
        reciprocal = 1.0 / (scale * shrink)

    def unscaled(gradient: Gradient) -> Gradient:
        if gradient is None:
            return None
        numbers = values(gradient)
        if not compiled or numbers.dtype == tf.float64:
            return with_values(gradient, divided(numbers, scale, tf.cast))
        return with_values(gradient, tf.cast(tf.cast(numbers, tf.float32) * shrink * reciprocal, numbers.dtype))

    return unscaled


def summable(gradients: Sequence[Gradient]) -> list[Gradient]:
    """The gradients to check: finite only if their sum over the replicas must be finite too.

    A v1 optimizer adds up the gradients of all replicas after the check, and finite numbers can add up to Inf.
    """
    count = replicas()
    if count == 1:
        return list(gradients)
    return [None if each is None else with_values(each, values(each) * count) for each in gradients]


def concrete(gradient: Gradient) -> Gradient:
    """The gradient as a tensor or IndexedSlices; None stays None."""
    return None if gradient is None else with_values(gradient, values(gradient))


def values(gradient: Gradient) -> tf.Tensor:
    """The numbers of a gradient: of IndexedSlices, the slices."""
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else tf.convert_to_tensor(gradient)


def with_values(gradient: Gradient, numbers: tf.Tensor) -> Gradient:
    """A gradient of the same kind with other numbers."""
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(numbers, gradient.indices, gradient.dense_shape)
    return numbers


def all_finite(gradients: Sequence[Gradient]) -> tf.Tensor:
    """A scalar bool tensor: no gradient holds an Inf or a NaN. True if there is no gradient at all."""
    if in_xla():
        return tf.reduce_all(tf.equal(codes(gradients), 0))
    each_finite = [tf.reduce_all(tf.math.is_finite(values(each))) for each in gradients if each is not None]
    return tf.reduce_all(tf.stack(each_finite)) if each_finite else tf.constant(value=True)


def codes(gradients: Sequence[Gradient]) -> tf.Tensor:
    """An int32 vector, one code per gradient: 0 finite (or None), 1 holds Inf, 2 holds NaN, 3 holds both."""
    if not gradients:
        return tf.zeros([0], tf.int32)
    infs, nans = zip(*map(_found, gradients), strict=True)
    found = tf.cast(tf.stack([*infs, *nans]), tf.int32)
    return found[: len(gradients)] + 2 * found[len(gradients) :]


def _found(gradient: Gradient) -> Sequence[tf.Tensor]:
    """Whether a gradient holds Inf, and whether it holds NaN."""
    if gradient is None:
        return [tf.constant(value=False)] * 2
    numbers = values(gradient)
    flags = tf.math.is_inf(numbers), tf.math.is_nan(numbers)
    if not in_xla() or numbers.shape.rank is None:
        return [*map(tf.reduce_any, flags)]
    every = list(range(numbers.shape.rank))
    return xla_variadic_reduce(flags, [tf.constant(value=False)] * 2, dimensions_to_reduce=every, reducer=_any_of_two())


@cache
def _any_of_two() -> Any:
    """How `_found` joins the findings for two parts of a gradient."""
    with tf.init_scope():
        join = tf.function(lambda *each: (each[0] | each[2], each[1] | each[3]), autograph=False)
        return join.get_concrete_function(*[tf.TensorSpec([], tf.bool)] * 4)


def agreed_finite(gradients: Sequence[Gradient]) -> tf.Tensor:
    """`all_finite` on every replica, in replica context, in cross-replica context or without a strategy.

    In replica context this is a collective: every replica must call it.
    """

    def agree(gradients: Sequence[Gradient]) -> tf.Tensor:
        finite = all_finite(gradients)
        return finite if replicas() == 1 else tf.equal(_total(tf.where(finite, 0.0, 1.0)), 0.0)

    return on_each_replica(agree, gradients)


def agreed_codes(gradients: Sequence[Gradient], codes: Callable[[Sequence[Gradient]], tf.Tensor] = codes) -> tf.Tensor:
    """The codes of all replicas together, as `codes` gives them on one: Inf if any has Inf, NaN if any has NaN.

    In replica context this is a collective, too.
    """

    def agree(gradients: Sequence[Gradient]) -> tf.Tensor:
        local = codes(gradients)
        if replicas() == 1:
            return local
        infs, nans = (_total(tf.cast(tf.bitwise.bitwise_and(local, bit), tf.float32)) > 0 for bit in (1, 2))
        return tf.cast(infs, tf.int32) + 2 * tf.cast(nans, tf.int32)

    return on_each_replica(agree, gradients)


def on_each_replica(function: Callable[[Sequence[Gradient]], tf.Tensor], gradients: Sequence[Gradient]) -> tf.Tensor:
    """The result of a function that gives the same on all replicas, called on each of them."""
    if not tf.distribute.in_cross_replica_context():
        return function(gradients)
    strategy = tf.distribute.get_strategy()
    return first_of(strategy.extended.call_for_each_replica(function, args=(list(gradients),)))


def first_of(value: Any) -> Any:
    """The value on this worker's first replica, of a value that is the same on all."""
    return tf.distribute.get_strategy().experimental_local_results(value)[0]


def replicas() -> int:
    """How many replicas take this step together."""
    return int(tf.distribute.get_strategy().num_replicas_in_sync)


def refuse_cross_replica(method: str) -> None:
    """Refuse a call that is not made on behalf of one replica."""
    if tf.distribute.in_cross_replica_context():
        raise CrossReplicaError(
            f"{method} must be called in a replica context, got cross-replica context. "
            "Move the call into the function that is passed to strategy.run."
        )


def _total(number: tf.Tensor) -> tf.Tensor:
    """The sum over replicas, on every replica."""
    replica, add = tf.distribute.get_replica_context(), tf.distribute.ReduceOp.SUM
    if in_xla():  # where TensorFlow has no merge_call
        return replica.all_reduce(add, number)
    # Not all_reduce: in a v1 Session it waits for ever under MirroredStrategy (TensorFlow 2.21).
    return replica.merge_call(lambda strategy, each: strategy.reduce(add, each, axis=None), args=(number,))
