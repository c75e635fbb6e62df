"""The calls of functions that a block of code makes, handed to an observer that makes them in its own way."""

from __future__ import annotations

import functools
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tensorflow.core.protobuf.config_pb2 import ConfigProto

from mixdown.tensorflow.calls import active_policy
from mixdown.tensorflow.install import install
from mixdown.tensorflow.runtime.private import Context, FunctionCallOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Make = Callable[[bytes], Any]
    """Makes the call at hand, of the function of that name and as it is, whatever policy is in force."""

    Leave = Callable[[], Any]
    """Makes the call at hand as if nobody observed it."""

    Observer = Callable[[Any, bytes, Make, Leave], Any]
    """Told the context and the name of the function; returns what the call returned."""


@contextmanager
def observed(observer: Observer) -> Iterator[None]:
    """Hand every call that this thread makes inside the block to an observer."""
    install()  # below this one: later it would go on top, and be lost with it
    before, thread = Context.call_function, threading.get_ident()

    @functools.wraps(before)  # with the mark by which mixdown knows that its own hook is in place
    def call_function(context: Any, name: bytes, tensor_inputs: Any, num_outputs: int) -> Any:
        def leave() -> Any:
            return before(context, name, tensor_inputs, num_outputs)

        def make(other: bytes) -> Any:
            with active_policy.scope(None):
                return before(context, other, tensor_inputs, num_outputs)

        return leave() if threading.get_ident() != thread else observer(context, name, make, leave)

    Context.call_function = call_function
    try:
        yield
    finally:
        Context.call_function = before


@contextmanager
def unoptimized(context: Any) -> Iterator[None]:
    """Calls inside the block run as they are written: TensorFlow's graph optimizers would fold and fuse probed ops."""
    before = context.function_call_options
    config = ConfigProto.FromString(context.config.SerializeToString())
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    context.function_call_options = FunctionCallOptions(before.executor_type, config)
    try:
        yield
    finally:
        context.function_call_options = before
