"""How what probes see leaves a function: through a queue that nodes write to and Python empties afterwards.

A queue, because nothing else leaves loop bodies and branches without changing their signatures; by name, because a
function can then reach it without an argument.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import tensorflow as tf

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mixdown.tensorflow.numerics.probing.probed_function import ProbedFunction

HOST = "/device:CPU:0"  # queues have no kernels elsewhere

_numbers = count(1)


class Channel:
    """Records of fixed dtypes and any shapes, first in, first out."""

    def __init__(self, *dtypes: Any) -> None:
        self._dtypes = dtypes
        self._name = f"mixdown_channel_{next(_numbers)}"
        with tf.device(HOST):
            self._queue = tf.raw_ops.FIFOQueueV2(component_types=dtypes, shared_name=self._name)
        self._handles: dict[ProbedFunction, str] = {}

    def write(self, function: ProbedFunction, tensors: Sequence[str]) -> str:
        """Let a function send tensors as one record; returns the node that does."""
        if function not in self._handles:
            types = {"component_types": self._dtypes, "shared_name": self._name.encode()}
            self._handles[function] = function.add("FIFOQueueV2", (), HOST, **types) + ":handle:0"
        inputs = (self._handles[function], *tensors)
        return function.add("QueueEnqueueV2", inputs, HOST, Tcomponents=self._dtypes, timeout_ms=-1)

    def records(self) -> Iterator[list[Any]]:
        """Take out all records so far."""
        for _ in range(int(tf.raw_ops.QueueSizeV2(handle=self._queue))):
            yield tf.raw_ops.QueueDequeueV2(handle=self._queue, component_types=self._dtypes)

    def close(self) -> None:
        """Free the queue."""
        tf.raw_ops.DestroyResourceOp(resource=self._queue, ignore_lookup_error=True)
