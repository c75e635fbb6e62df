"""Constants stored in 16 bits, where nobody reads them in 32. See `store_low`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from mixdown.tensorflow import kinds

if TYPE_CHECKING:
    from mixdown.tensorflow.convert.sheets import Sheet


def store_low(sheet: Sheet, preserved: set[str]) -> int:
    """Store the constants of a body low whose every reader casts them; returns how many."""
    count = 0
    for index, node in enumerate(sheet.nodes):
        readers = sheet.readers((index, 0))
        if node.op != "Const" or node.attr["dtype"].type != kinds.FLOAT or not readers or node.name in preserved:
            continue
        if all(sheet.is_lowered(reader) for reader in readers):
            value = node.attr["value"].tensor
            value.CopyFrom(tf.make_tensor_proto(rounded(tf.make_ndarray(value), sheet.low)))
            node.attr["dtype"].type = sheet.low
            sheet.hand_on((index, 0))
            count += 1
    return count


def rounded(values: np.ndarray, low: int) -> np.ndarray:
    """Values as a cast at run time would round them."""
    with np.errstate(over="ignore"):
        return values.astype(tf.as_dtype(low).as_numpy_dtype)
