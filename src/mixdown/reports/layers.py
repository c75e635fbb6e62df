"""The layer an op belongs to, from nothing but the names of ops."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

GRADIENTS = ("/gradient_tape/", "/gradients/")
"""What TensorFlow puts before the names of gradient ops: what follows is the name of the op they are a gradient of."""

GRADIENT = "_grad"
"""What TensorFlow 1 puts behind that name."""


def layers(names: Sequence[str]) -> list[str]:
    """Per op name, its layer: the scope it stands in, "" if it stands in none.

    The scope that an op opens for its helpers or gradients is no layer: these belong where the op belongs.
    """
    known = set(names)
    return [_layer(name, known) for name in names]


def is_gradient(name: str) -> bool:
    """Whether the name is that of a gradient op."""
    return any(prefix in f"/{name}" for prefix in GRADIENTS)


def _layer(name: str, known: Container[str]) -> str:
    own = name
    for prefix in GRADIENTS:
        own = f"/{own}".rpartition(prefix)[2].removeprefix("/")
    scope = own.rpartition("/")[0]
    if scope in known or (own != name and scope.endswith(GRADIENT)):
        return scope.rpartition("/")[0]
    return scope
