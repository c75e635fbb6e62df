"""The values of a saved model's variables: which object has which name there, and a copy with some of them low."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # its types are a package of their own
from tensorflow.core.protobuf import trackable_object_graph_pb2

from mixdown.errors import MixdownError
from mixdown.tensorflow.convert.constants import rounded

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"
"""The name under which a checkpoint holds the graph of Python objects it was made from."""

VALUE = "VARIABLE_VALUE"

FAILURES = (tf.errors.OpError, DecodeError, ArithmeticError, LookupError, MemoryError, RuntimeError, ValueError)
"""What TensorFlow's reader raises on files that are damaged."""


def object_keys(prefix: Path, saved: Any) -> dict[int, str]:
    """For every variable in a saved graph of Python objects, its name in the checkpoint.

    Both graphs have the same shape, but number their nodes differently: they are walked together from the root.
    """
    with _told_by_name(prefix):
        reader = tf.train.load_checkpoint(str(prefix))
        if not saved.nodes or not reader.has_tensor(OBJECTS):
            return {}
        stored = trackable_object_graph_pb2.TrackableObjectGraph.FromString(reader.get_tensor(OBJECTS))
        return _walked(stored, saved)


def _walked(stored: Any, saved: Any) -> dict[int, str]:
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
    """Write a checkpoint again with the named values low; returns the names of those that do not fit into 16 bits."""
    with _told_by_name(source):
        reader = tf.train.load_checkpoint(str(source))
        names = sorted(reader.get_variable_to_shape_map())
        values = {name: _array(reader.get_tensor(name)) for name in names}
    lowered = {name: rounded(values[name], low) for name in names if name in keys}
    too_large = [name for name, value in lowered.items() if np.isinf(value).any() and not np.isinf(values[name]).any()]
    _write(target, {**values, **lowered})
    return too_large


@contextmanager
def _told_by_name(prefix: Path) -> Iterator[None]:
    """TensorFlow's reader fails in many ways, none of which names the files."""
    try:
        yield
    except FAILURES as error:
        raise MixdownError(f"The values of the variables in {str(prefix)!r} cannot be read: {error}.") from None


def _array(value: Any) -> np.ndarray:
    """A value as an array; text as objects, because arrays of text lose zero bytes at its end."""
    return np.asarray(value, dtype=object if isinstance(value, bytes) else None)


def _write(target: Path, values: dict[str, np.ndarray]) -> None:
    """Write a checkpoint. In a session, which every process can have, with or without eager execution."""
    with tf.Graph().as_default(), tf.device("CPU:0"), tf.compat.v1.Session() as session:
        feeds = [tf.compat.v1.placeholder(tf.as_dtype(value.dtype), value.shape) for value in values.values()]
        write = tf.raw_ops.SaveV2(
            prefix=str(target), tensor_names=list(values), shape_and_slices=[""] * len(values), tensors=feeds
        )
        session.run(write, dict(zip(feeds, values.values(), strict=True)))
