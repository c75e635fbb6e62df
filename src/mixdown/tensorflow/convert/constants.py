"""Constants stored in 16 bits, where nobody reads them in 32. See `store_low`."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2

from mixdown.errors import GraphError
from mixdown.tensorflow.protos import signatures

if TYPE_CHECKING:
    from mixdown.tensorflow.convert.body_editor import Sheet

FLOAT_BYTES = 4


def store_low(sheet: Sheet, preserved: set[str]) -> int:
    """Store the constants of a body low whose every reader casts them; returns how many."""
    count = 0
    for index, node in enumerate(sheet.nodes):
        readers = sheet.readers((index, 0))
        if node.op != "Const" or node.attr["dtype"].type != signatures.FLOAT or not readers or node.name in preserved:
            continue
        if all(sheet.is_lowered(reader) for reader in readers):
            value = node.attr["value"].tensor
            value.CopyFrom(lowered(value, sheet.low, node.name))
            node.attr["dtype"].type = sheet.low
            sheet.hand_on((index, 0))
            count += 1
    return count


def lowered(value: Any, low: int, name: str) -> Any:
    """A float32 TensorProto in 16 bits. A value that stands for many is rounded once, and goes on to stand for them.

    Raises:
        GraphError: it holds another number of values than its shape asks for, or none.
    """
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
    """Values as a cast at run time would round them."""
    with np.errstate(over="ignore"):
        return values.astype(tf.as_dtype(low).as_numpy_dtype)
