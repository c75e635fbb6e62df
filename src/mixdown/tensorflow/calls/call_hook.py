"""The call boundary: where a tf.function is handed to TensorFlow's runtime, its twin is handed over instead.

`install` wraps two methods of TensorFlow's eager context: the one through which every function is called, and the one
through which functions are removed. Originals are never changed: gradients, exports and disabled use see float32.
"""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf

from mixdown.core import Policy
from mixdown.tensorflow.calls import active_policy
from mixdown.tensorflow.calls.error_names import name_originals
from mixdown.tensorflow.runtime.private import Context, OpError, eager_mode

_MARK = "_mixdown_original"


def install() -> None:
    """Wrap the call boundary, once; one half is put in if an interrupt left out the other."""
    for name, wrap in (("remove_function", _wrap_remove), ("call_function", _wrap_call)):
        method = getattr(Context, name)
        if not hasattr(method, _MARK):
            setattr(Context, name, wrap(method))


def uninstall() -> None:
    """Give TensorFlow its own methods back."""
    for name in ("call_function", "remove_function"):
        method = getattr(Context, name)
        setattr(Context, name, getattr(method, _MARK, method))


def installed() -> bool:
    """Whether the call boundary is wrapped."""
    return hasattr(Context.call_function, _MARK)


def works() -> bool:
    """Whether a function that is called now really runs as its twin: 300 * 300 is finite in float32 only."""

    def mixdown_probe(large: Any) -> Any:
        return tf.matmul(large, large)

    with eager_mode(), active_policy.scope(Policy(devices="all")):
        return bool(tf.math.is_inf(tf.function(mixdown_probe)(tf.constant([[300.0]])))[0, 0])


def _wrap_call(original: Any) -> Any:
    @functools.wraps(original)
    def call_function(context: Any, name: bytes, tensor_inputs: Any, num_outputs: int) -> Any:
        twins = active_policy.current()
        if twins is None:
            return original(context, name, tensor_inputs, num_outputs)
        device = context.device_name
        twin = twins.known.get((name, device)) or twins.of(context, name, device, tensor_inputs)
        try:
            return original(context, twin.name, tensor_inputs, num_outputs)
        except OpError as error:
            name_originals(error, context, twin)
            raise

    setattr(call_function, _MARK, original)
    return call_function


def _wrap_remove(original: Any) -> Any:
    @functools.wraps(original)
    def remove_function(context: Any, name: Any) -> None:
        original(context, name)
        key = name if isinstance(name, bytes) else name.encode()
        for twins in active_policy.all_twins():
            for registered in twins.forget(key):
                original(context, registered)

    setattr(remove_function, _MARK, original)
    return remove_function
