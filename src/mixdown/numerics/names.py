"""What the name of an op tells: the layer it belongs to, and whether it is a part of the backward pass."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

BACKWARD = re.compile(r"(^|/)(gradient_tape|gradients)(_\d+)?/")
"""The scopes that TensorFlow puts around the ops of a gradient."""


def is_backward(op: str) -> bool:
    """Whether an op computes a gradient, by its name."""
    return BACKWARD.search(op) is not None


def layer_of(op: str, ops: Collection[str] = ()) -> str:
    """The scope that an op was made in, "" if in none: with Keras, the path of its layer.

    Args:
        op: the name of the op.
        ops: the names of the ops around it. TensorFlow puts the gradient of an op into a scope of that op's name, which
            is no layer.
    """
    scope = BACKWARD.sub("/", op).lstrip("/").rpartition("/")[0]
    return scope.rpartition("/")[0] if is_backward(op) and scope in ops else scope
