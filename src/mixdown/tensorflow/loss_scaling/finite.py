"""The one finite check of gradients. `all_finite` runs at every step; `codes` only after it said no.

Gradients are dense tensors of any float dtype, IndexedSlices (their values count) or None (ignored). `verdict`
and `verdict_codes` are the same two questions put to all replicas of a distribution strategy together.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from mixdown.tensorflow.loss_scaling.branching import in_xla

Gradient = Any  # tf.Tensor, tf.IndexedSlices or None; across replicas, a tf.distribute.DistributedValues of them


def all_finite(gradients: Sequence[Gradient]) -> tf.Tensor:
    """A scalar bool tensor: no gradient holds an Inf or a NaN. True if there is no gradient at all."""
    verdicts = [tf.reduce_all(tf.math.is_finite(values(each))) for each in gradients if each is not None]
    return tf.reduce_all(tf.stack(verdicts)) if verdicts else tf.constant(value=True)


def codes(gradients: Sequence[Gradient]) -> tf.Tensor:
    """An int32 vector, one code a gradient: 0 finite (or None), 1 holds Inf, 2 holds NaN, 3 holds both."""
    return tf.stack([code(each) for each in gradients]) if gradients else tf.zeros([0], tf.int32)


def agreed(finite: tf.Tensor) -> tf.Tensor:
    """The verdict of all replicas together: finite only if finite on each. Outside a strategy, the same.

    Called in replica context, this is a collective: every replica must call it.
    """
    if replicas() == 1:
        return finite
    return tf.equal(total(tf.where(finite, 0.0, 1.0)), 0.0)


def agreed_codes(local_codes: tf.Tensor) -> tf.Tensor:
    """The codes of all replicas together: Inf if any has Inf, NaN if any has NaN. A collective, like `agreed`."""
    if replicas() == 1:
        return local_codes
    infs, nans = (total(tf.cast(tf.bitwise.bitwise_and(local_codes, bit), tf.float32)) > 0 for bit in (1, 2))
    return tf.cast(infs, tf.int32) + 2 * tf.cast(nans, tf.int32)


def verdict(gradients: Sequence[Gradient]) -> tf.Tensor:
    """`all_finite` agreed across replicas, in replica context, in cross-replica context or without a strategy."""
    return on_each_replica(lambda each: agreed(all_finite(each)), gradients)


def verdict_codes(gradients: Sequence[Gradient]) -> tf.Tensor:
    """`codes` agreed across replicas, in any context."""
    return on_each_replica(lambda each: agreed_codes(codes(each)), gradients)


def on_each_replica(question: Callable[[Sequence[Gradient]], tf.Tensor], gradients: Sequence[Gradient]) -> tf.Tensor:
    """The answer to a question that all replicas answer alike."""
    if not tf.distribute.in_cross_replica_context():
        return question(gradients)
    strategy = tf.distribute.get_strategy()
    answers = strategy.extended.call_for_each_replica(question, args=(list(gradients),))
    return strategy.experimental_local_results(answers)[0]


def replicas() -> int:
    """How many replicas take this step together."""
    return int(tf.distribute.get_strategy().num_replicas_in_sync)


def total(number: tf.Tensor) -> tf.Tensor:
    """The sum over replicas, on every replica."""
    replica, add = tf.distribute.get_replica_context(), tf.distribute.ReduceOp.SUM
    if in_xla():  # where TensorFlow has no merge_call
        return replica.all_reduce(add, number)
    # Not all_reduce: in a v1 Session it waits for ever under MirroredStrategy (TensorFlow 2.21).
    return replica.merge_call(lambda strategy, each: strategy.reduce(add, each, axis=None), args=(number,))


def values(gradient: Gradient) -> tf.Tensor:
    """The numbers of a gradient: of IndexedSlices, the slices."""
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else tf.convert_to_tensor(gradient)


def code(gradient: Gradient) -> tf.Tensor:
    """The code of one gradient."""
    if gradient is None:
        return tf.constant(0, tf.int32)
    numbers = values(gradient)
    has_inf = tf.reduce_any(tf.math.is_inf(numbers))
    has_nan = tf.reduce_any(tf.math.is_nan(numbers))
    return tf.cast(has_inf, tf.int32) + 2 * tf.cast(has_nan, tf.int32)
