"""What a v1 or tf_keras optimizer does in a skipped step: accuse the offending variables, and sound the alarm."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

import tensorflow as tf

from mixdown.scaling.alarm import WARN_AT
from mixdown.scaling.skip_log import offenders
from mixdown.tensorflow.loss_scaling.branching import in_xla
from mixdown.tensorflow.loss_scaling.finite import verdict_codes
from mixdown.tensorflow.loss_scaling.loss_scale import LossScale
from mixdown.tensorflow.loss_scaling.optimizers.step_record import sound


class Skipper(Protocol):
    """What is needed of an optimizer."""

    _loss_scale: LossScale
    _skip_limit: int | None
    _names: dict[str, int]


def skipped(optimizer: Skipper, gradients: Sequence[Any], numbers: Sequence[int], skips: tf.Tensor) -> Any:
    """Record the offenders of this step and sound the alarm if it is due; in a graph, the operation for it."""
    entries = optimizer._loss_scale.log_skip(numbers, verdict_codes(gradients))
    if tf.executing_eagerly():
        return alarm(optimizer._names, optimizer._skip_limit, skips.numpy(), entries.numpy())
    # XLA compiles both branches of a condition and can call Python in neither.
    return entries.op if in_xla() else alarm_op(optimizer, skips, entries)


def alarm(names: dict[str, int], limit: int | None, skips: Any, entries: Any) -> None:
    """Raise or warn if that many skips in a row call for it."""
    sound(int(skips), offenders(entries, list(names)), skip_limit=limit)


def alarm_op(optimizer: Skipper, skips: tf.Tensor, entries: tf.Tensor) -> tf.Tensor:
    """Call `alarm` from a graph, but only when it has something to say: calling Python is slow."""
    limit = optimizer._skip_limit
    due = tf.equal(skips, WARN_AT) if limit is None else skips >= limit
    # TensorFlow keeps what a graph calls as long as the process lives: it must not hold the optimizer.
    speak = partial(alarm, optimizer._names, limit)

    def call() -> tf.Tensor:
        call_op = tf.numpy_function(speak, [skips, entries], [])
        with tf.control_dependencies([call_op]):
            return tf.constant(value=True)

    return tf.cond(due, call, lambda: tf.constant(value=False))
