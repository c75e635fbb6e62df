"""Branches in TensorFlow: `where` between two values, `either` between two effects, `in_xla` for what XLA forbids."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from mixdown.tensorflow.runtime.private import control_flow_util


def where(condition: Any, if_true: Any, if_false: Any) -> tf.Tensor:
    """`tf.where` that gives a Python number the dtype of the tensor beside it.

    In a graph, `tf.where(condition, 0, an_int64)` makes an int32 of the 0 and then refuses the pair. A Python bool as
    condition adds no op.
    """
    dtype = next((each.dtype for each in (if_true, if_false) if tf.is_tensor(each)), None)
    if isinstance(condition, bool):
        return tf.convert_to_tensor(if_true if condition else if_false, dtype=dtype)
    return tf.where(condition, tf.convert_to_tensor(if_true, dtype=dtype), tf.convert_to_tensor(if_false, dtype=dtype))


def in_xla() -> bool:
    """True while a function with `jit_compile=True` is traced: its graph may not call Python."""
    return bool(control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph()))


def either(condition: tf.Tensor, if_true: Callable[[], Any], if_false: Callable[[], Any]) -> tf.Tensor | None:
    """Run one of two side effects: now if the condition is known, else in a graph, as a tensor to depend on."""
    if tf.executing_eagerly():
        (if_true if condition else if_false)()
        return None

    def done(effect: Any) -> tf.Tensor:
        with tf.control_dependencies([each for each in tf.nest.flatten(effect) if each is not None]):
            return tf.constant(value=True)

    return tf.cond(condition, lambda: done(if_true()), lambda: done(if_false()))
