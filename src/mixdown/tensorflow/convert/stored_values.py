"""Values that are stored in 16 bits: constants in graphs (`store_constants`), variables in checkpoints (`copy`)."""

from collections.abc import Collection
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # its types are a package of their own
from tensorflow.core.framework import tensor_pb2
from tensorflow.core.protobuf import trackable_object_graph_pb2

from mixdown.errors import GraphError
from mixdown.tensorflow.convert.body_editor import BodyEditor
from mixdown.tensorflow.protos import signatures
from mixdown.tensorflow.protos.files import telling

FLOAT_BYTES = 4

OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"
"""The name under which a checkpoint holds the graph of Python objects it was made from."""

VALUE = "VARIABLE_VALUE"
VALUES = "The values of the variables in"  # in messages

FAILURES = (tf.errors.OpError, DecodeError, ArithmeticError, LookupError, MemoryError, RuntimeError, ValueError)
"""What TensorFlow's reader raises on files that are damaged."""


def store_constants(editor: BodyEditor, preserved: set[str]) -> int:
    """Store those constants of a body in 16 bits that are always cast to 16 bits; returns how many."""
    count = 0
    for index, node in enumerate(editor.nodes):
        readers = editor.readers((index, 0))
        if node.op != "Const" or node.attr["dtype"].type != signatures.FLOAT or not readers or node.name in preserved:
            continue
        if all(editor.is_lowered(reader) for reader in readers):
            value = node.attr["value"].tensor
            value.CopyFrom(lowered_constant(value, editor.low, node.name))
            node.attr["dtype"].type = editor.low
            editor.adapt_readers((index, 0))
            count += 1
    return count


def lowered_constant(value: Any, low: int, name: str) -> Any:
    """A float32 TensorProto in 16 bits. One value that is stored for many equal ones stays one."""
    size, content = prod(dim.size for dim in value.tensor_shape.dim), value.tensor_content
    if (
        value.dtype != signatures.FLOAT
        or len(value.float_val) > size
        or (content and len(content) != size * FLOAT_BYTES)
    ):
        raise GraphError(f"The constant {name!r} does not hold {size} values of float32.")
    held = np.frombuffer(content, np.float32) if content else np.array(value.float_val, np.float32)
    out = tensor_pb2.TensorProto(dtype=low, tensor_shape=value.tensor_shape)
    bits = rounded(held, low).view(np.uint16)
    if content:
        out.tensor_content = bits.tobytes()
    else:
        out.half_val.extend(bits.tolist())
    return out


def rounded(values: np.ndarray, low: int) -> np.ndarray:
    """Values rounded to the 16-bit dtype as a cast at run time rounds them."""
    with np.errstate(over="ignore"):
        return values.astype(tf.as_dtype(low).as_numpy_dtype)


def object_keys(prefix: Path, saved: Any) -> dict[int, str]:
    """For every variable in a saved graph of Python objects, its name in the checkpoint.

    Both graphs have the same shape, but number their nodes differently: they are walked together from the root.
    """
    with telling(f"{VALUES} {str(prefix)!r} cannot be read", *FAILURES):
        reader = tf.train.load_checkpoint(str(prefix))
        if not saved.nodes or not reader.has_tensor(OBJECTS):
            return {}
        stored = trackable_object_graph_pb2.TrackableObjectGraph.FromString(reader.get_tensor(OBJECTS))
        return _matched_keys(stored, saved)


def _matched_keys(stored: Any, saved: Any) -> dict[int, str]:
    pairs, keys, seen = [(0, 0)], dict[int, str](), {0}
    for here, there in pairs:
        keys.update((here, a.checkpoint_key) for a in stored.nodes[there].attributes if a.name == VALUE)
        children = {child.local_name: child.node_id for child in stored.nodes[there].children}
        for child in saved.nodes[here].children:
            if child.local_name in children and child.node_id not in seen:
                seen.add(child.node_id)
                pairs.append((child.node_id, children[child.local_name]))
    return keys


def copy(source: Path, target: Path, keys: Collection[str], low: int) -> list[str]:
    """Copy a checkpoint with the named values in 16 bits; returns the names of those with values that are too large."""
    with telling(f"{VALUES} {str(source)!r} cannot be read", *FAILURES):
        reader = tf.train.load_checkpoint(str(source))
        names = sorted(reader.get_variable_to_shape_map())
        found = {name: reader.get_tensor(name) for name in names}
    # Text becomes objects: arrays of text lose zero bytes at its end.
    values = {name: np.asarray(each, object if isinstance(each, bytes) else None) for name, each in found.items()}
    lowered = {name: rounded(values[name], low) for name in names if name in keys}
    too_large = [name for name, value in lowered.items() if np.isinf(value).any() and not np.isinf(values[name]).any()]
    _write(target, {**values, **lowered})
    return too_large


def _write(target: Path, values: dict[str, np.ndarray]) -> None:
    """Write a checkpoint, in a session: that works with and without eager execution."""
    with tf.Graph().as_default(), tf.device("CPU:0"), tf.compat.v1.Session() as session:
        feeds = [tf.compat.v1.placeholder(tf.as_dtype(value.dtype), value.shape) for value in values.values()]
        write = tf.raw_ops.SaveV2(
            prefix=str(target), tensor_names=list(values), shape_and_slices=[""] * len(values), tensors=feeds
        )
        session.run(write, dict(zip(feeds, values.values(), strict=True)))
