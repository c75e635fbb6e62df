"""The call hook: where a tf.function is handed to TensorFlow's runtime, its twin is handed over instead.

`install` wraps two methods of TensorFlow's eager context: the one through which every function is called, and the one
through which functions are removed. Originals are never changed: gradients, exports and calls without a policy use
them. With `observed` a block of code can see every call first, and make it in its own way.
"""

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import tensorflow as tf

from mixdown.core import Policy
from mixdown.tensorflow.calls import active_policy
from mixdown.tensorflow.calls.twins import Twin
from mixdown.tensorflow.runtime.private import Context, OpError, eager_mode
from mixdown.tensorflow.runtime.source_lines import name_originals

_MARK = "_mixdown_original"


class ObservedCall(NamedTuple):
    """A call that is about to be made, as an observer gets it. The observer returns what the call is to return."""

    context: Any
    name: bytes
    as_is: Callable[[bytes], Any]  # makes the call, of the function of that name, whatever policy is in force
    unobserved: Callable[[], Any]  # makes the call as if this observer were not there


Observer = Callable[[ObservedCall], Any]


class _Observers(threading.local):
    """The observers of each thread, the innermost last."""

    stack: tuple[Observer, ...] = ()


_observers = _Observers()


@contextmanager
def observed(observer: Observer) -> Iterator[None]:
    """Hand every call that this thread makes inside the block to an observer; needs the hook to be installed."""
    before = _observers.stack
    try:
        _observers.stack = (*before, observer)
        yield
    finally:
        _observers.stack = before


def install() -> None:
    """Wrap both methods, once; if an interrupt left one of them unwrapped, that one is wrapped now."""
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
    """Whether the hook is in place."""
    return hasattr(Context.call_function, _MARK)


def works() -> bool:
    """Whether a function that is called now really runs as its twin: 2 * 300 * 300 is finite in float32 only."""

    def mixdown_self_test(large: Any) -> Any:  # under the name `twins.SELF_TEST`
        return tf.matmul(large, large, transpose_b=True)

    with eager_mode(), active_policy.scope(Policy(devices="all")):
        return bool(tf.math.is_inf(tf.function(mixdown_self_test)(tf.constant([[300.0, 300.0]])))[0, 0])


def _wrap_call(original: Any) -> Any:
    def call_twin(context: Any, name: bytes, tensor_inputs: Any, num_outputs: int) -> Any:
        twins = active_policy.current()
        if twins is None:
            return original(context, name, tensor_inputs, num_outputs)
        device = context.device_name
        twin = twins.known.get((name, device))
        if twin is None:
            twin = twins.of(context, name, device, tensor_inputs)
            if twin.timer is not None:
                return twin.timer(lambda: call_it(context, twin, tensor_inputs, num_outputs))
        return call_it(context, twin, tensor_inputs, num_outputs)

    def call_it(context: Any, twin: Twin, tensor_inputs: Any, num_outputs: int) -> Any:
        try:
            return original(context, twin.name, tensor_inputs, num_outputs)
        except OpError as error:
            name_originals(error, context, twin.originals)
            raise

    @functools.wraps(original)
    def call_function(context: Any, name: bytes, tensor_inputs: Any, num_outputs: int) -> Any:
        if not _observers.stack:
            return call_twin(context, name, tensor_inputs, num_outputs)
        return _observe(
            _observers.stack, context, name, lambda other: call_twin(context, other, tensor_inputs, num_outputs)
        )

    setattr(call_function, _MARK, original)
    return call_function


def _observe(observers: Sequence[Observer], context: Any, name: bytes, call: Callable[[bytes], Any]) -> Any:
    """Hand a call to the innermost of these observers; the calls that it makes go to the next one, if there is one."""
    if not observers:
        return call(name)
    *outer, observer = observers

    def as_is(other: bytes) -> Any:
        with active_policy.scope(None):
            return _observe(outer, context, other, call)

    return observer(ObservedCall(context, name, as_is, lambda: _observe(outer, context, name, call)))


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
