"""The way out for what probes see: a queue that nodes of any function write to and Python empties afterwards.

A queue, because nothing else leaves loop bodies and branches without changing their signatures; by name, because a
function can then reach it without an argument.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from tensorflow.core.framework.attr_value_pb2 import AttrValue

from mixdown.tensorflow.numerics.probing.probed_function import a_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mixdown.tensorflow.numerics.probing.probed_function import Sheet

HOST = "/device:CPU:0"  # queues have no kernels elsewhere

_numbers = count(1)


class Channel:
    """Records of fixed dtypes and any shapes, first in, first out."""

    def __init__(self, *dtypes: Any) -> None:
        self._dtypes = dtypes
        self._name = f"mixdown_channel_{next(_numbers)}"
        with tf.device(HOST):
            self._queue = tf.raw_ops.FIFOQueueV2(component_types=dtypes, shared_name=self._name)
        self._handles: dict[Sheet, str] = {}

    def write(self, sheet: Sheet, tensors: Sequence[str]) -> str:
        """Let a function send tensors as one record; returns the node that does."""
        inputs = (self._handle(sheet), *tensors)
        return sheet.add("QueueEnqueueV2", inputs, HOST, Tcomponents=self._types, timeout_ms=AttrValue(i=-1))

    def _handle(self, sheet: Sheet) -> str:
        if sheet not in self._handles:
            name = AttrValue(s=self._name.encode())
            node = sheet.add("FIFOQueueV2", (), HOST, component_types=self._types, shared_name=name)
            self._handles[sheet] = f"{node}:handle:0"
        return self._handles[sheet]

    @property
    def _types(self) -> AttrValue:
        return AttrValue(list=AttrValue.ListValue(type=[a_type(dtype).type for dtype in self._dtypes]))

    def records(self) -> Iterator[list[Any]]:
        """Take out all records so far."""
        for _ in range(int(tf.raw_ops.QueueSizeV2(handle=self._queue))):
            yield tf.raw_ops.QueueDequeueV2(handle=self._queue, component_types=self._dtypes)

    def close(self) -> None:
        """Free the queue."""
        tf.raw_ops.DestroyResourceOp(resource=self._queue, ignore_lookup_error=True)
