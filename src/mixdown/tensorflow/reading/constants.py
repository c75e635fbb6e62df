"""The numbers in Const nodes: `constant_in`."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixdown.core.constants import described
from mixdown.core.graph import Constant

WIDTH = 4  # bytes of a float32


def constant_in(node: Any) -> Constant | None:
    """What the float32 numbers in a Const node are like, None if there are none or they cannot be read."""
    tensor = node.attr["value"].tensor
    if not all(dim.size for dim in tensor.tensor_shape.dim) or len(tensor.tensor_content) % WIDTH:
        return None
    if tensor.tensor_content:
        return described(np.frombuffer(tensor.tensor_content, "<f4"))
    return described(np.fromiter(tensor.float_val, np.float32))  # the last one stands for all that follow
