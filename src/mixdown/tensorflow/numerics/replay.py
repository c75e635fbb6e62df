"""One op run again in float32, from the values it read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import types_pb2

from mixdown.tensorflow.calls import active_policy
from mixdown.tensorflow.numerics.probing.ports import inputs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LOW = frozenset({types_pb2.DT_HALF, types_pb2.DT_BFLOAT16})


def in_float32(node: Any, values: Sequence[Any], library: Mapping[str, Any]) -> list[Any] | None:
    """What a node makes of these inputs if all its 16-bit types are float32; None if it cannot be run alone."""
    raised = type(node)()
    raised.CopyFrom(node)
    for value in raised.attr.values():
        match value.WhichOneof("value"):
            case "type":
                value.type = _raised(value.type)
            case "list":
                value.list.type[:] = [_raised(dtype) for dtype in value.list.type]
    graph_def, feeds = _alone(raised, library), {f"input_{i}:0": _widened(value) for i, value in enumerate(values)}
    try:
        with active_policy.scope(None), tf.Graph().as_default() as graph:
            tf.import_graph_def(graph_def, name="")
            op = graph.get_operation_by_name(node.name)
            with tf.compat.v1.Session(graph=graph) as session:
                return list(session.run(list(op.outputs), feeds))
    except (tf.errors.OpError, ValueError):
        return None


def _alone(node: Any, library: Mapping[str, Any]) -> Any:
    """A graph of placeholders and one node, free of devices and of neighbours."""
    graph_def = tf.compat.v1.GraphDef()
    read = inputs(node, library)
    for index, port in enumerate(read):
        placeholder = graph_def.node.add(name=f"input_{index}", op="Placeholder")
        placeholder.attr["dtype"].type = port.dtype
    copy = graph_def.node.add()
    copy.CopyFrom(node)
    copy.device = ""
    copy.input[:] = [f"input_{index}" for index in range(len(read))]
    for attribute in [name for name in copy.attr if name.startswith("_")]:
        del copy.attr[attribute]
    return graph_def


def _raised(dtype: int) -> int:
    return types_pb2.DT_FLOAT if dtype in LOW else dtype


def _widened(value: Any) -> Any:
    return value.astype(np.float32) if value.dtype in (np.float16, tf.bfloat16.as_numpy_dtype) else value
