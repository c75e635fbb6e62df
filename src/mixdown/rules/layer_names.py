"""What the names of TensorFlow's ops say: the layer that an op belongs to, and whether it computes a gradient."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence

_GRADIENT_SCOPE = re.compile(r"(?:.*/)?(?:gradient_tape|gradients)(?:_\d+)?/", re.DOTALL)
"""The scope that TensorFlow puts gradient ops into, up to the name of the op that they are a gradient of."""

_GRADIENT_SUFFIX = "_grad"
"""What TensorFlow 1 appends to that name."""


_FUNCTION = re.compile(r"__(?:inference|forward|backward)_(.+?)(?:_\d+)?", re.DOTALL)
"""The name under which TensorFlow registers a traced function: the name in Python between a prefix and a number."""


def python_name(function: str) -> str:
    """The name in Python of a traced function, given the name under which TensorFlow registered it."""
    found = _FUNCTION.fullmatch(function)
    return found[1] if found else function


def is_backward(op: str) -> bool:
    """Whether an op is a part of the backward pass."""
    return _GRADIENT_SCOPE.match(op) is not None


def layer_of(op: str, ops: Container[str] = ()) -> str:
    """The scope that an op was made in, "" if in none: with Keras, the path of its layer.

    Args:
        op: the name of the op. A gradient belongs to the layer of the op that it is a gradient of.
        ops: the names of the ops around it. The scope that an op opens for its helpers or gradients is no layer.
    """
    gradient = _GRADIENT_SCOPE.match(op)
    forward = op[gradient.end() :] if gradient else op
    scope = forward.rpartition("/")[0]
    opened_by_an_op = scope in ops or (gradient and scope.endswith(_GRADIENT_SUFFIX))
    return scope.rpartition("/")[0] if opened_by_an_op else scope


def layers(ops: Sequence[str]) -> list[str]:
    """The layer of every op of a graph, in the order of their names."""
    known = set(ops)
    return [layer_of(op, known) for op in ops]
