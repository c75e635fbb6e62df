"""How what probes see leaves a function: through a queue that nodes write to and Python empties afterwards.

A queue, because nothing else leaves loop bodies and branches without changing their signatures; by name, because a
function can then reach it without an argument.
"""

from collections.abc import Iterator
from itertools import count
from typing import Any, Generic, TypeVar

import tensorflow as tf

from mixdown.tensorflow.numerics.probing.probed_function import ProbedFunction

Label = TypeVar("Label")
HOST = "/device:CPU:0"  # queues have no kernels elsewhere

_numbers = count(1)


class Channel(Generic[Label]):
    """Records of one dtype and any shapes, first in, first out, each under the label that it was sent with."""

    def __init__(self, dtype: Any) -> None:
        self._dtypes = (tf.int32, dtype)  # the number of the label, and the record
        self._name = f"mixdown_channel_{next(_numbers)}"
        with tf.device(HOST):
            self._queue = tf.raw_ops.FIFOQueueV2(component_types=self._dtypes, shared_name=self._name)
        self._handles: dict[ProbedFunction, str] = {}
        self._labels: list[Label] = []

    def send(self, function: ProbedFunction, tensor: str, label: Label) -> str:
        """Let a function send a tensor whenever it runs; returns the node that does."""
        if function not in self._handles:
            types = {"component_types": self._dtypes, "shared_name": self._name.encode()}
            self._handles[function] = function.add("FIFOQueueV2", (), HOST, **types) + ":handle:0"
        number = function.constant(len(self._labels), tf.int32)
        self._labels.append(label)
        inputs = (self._handles[function], number, tensor)
        return function.add("QueueEnqueueV2", inputs, HOST, Tcomponents=self._dtypes, timeout_ms=-1)

    def records(self) -> Iterator[tuple[Label, Any]]:
        """Take out all records so far."""
        for _ in range(int(tf.raw_ops.QueueSizeV2(handle=self._queue))):
            number, record = tf.raw_ops.QueueDequeueV2(handle=self._queue, component_types=self._dtypes)
            yield self._labels[int(number)], record.numpy()

    def close(self) -> None:
        """Free the queue."""
        tf.raw_ops.DestroyResourceOp(resource=self._queue, ignore_lookup_error=True)
