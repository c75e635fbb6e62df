"""How long a fusing compiler expects kernels to take, as the bytes that a GPU reads in that time. Start with `times`.

This is the rule by which XLA for GPUs decides whether an element-wise value is stored, or computed anew by each kernel
that reads it: all of these take it in, or none. A kernel takes a microsecond to start; its arithmetic and its memory
traffic overlap.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

START = 2e6
"""The bytes that an A100 reads in the microsecond that a kernel takes to start."""
OVERLAP = 0.95
"""The part of the shorter one of arithmetic and traffic that goes on beside the longer one."""


class FusedReader(NamedTuple):
    """A kernel that reads a value, or computes it."""

    arithmetic: float  # of all else in it
    moved: int  # what it moves besides, in bytes
    missing: int  # the bytes that it would read in addition to compute the value


def times(arithmetic: float, read: int, stored: int, readers: Iterable[FusedReader]) -> tuple[float, float]:
    """How long a value takes together with its readers: if it is stored, and if each of them computes it.

    Args:
        arithmetic: what computing it takes.
        read: the bytes that it is computed from.
        stored: the bytes of the value itself.
        readers: the kernels that read it.
    """
    apart, together = START + _time(arithmetic, read + stored), 0.0
    for reader in readers:
        apart += _time(reader.arithmetic, reader.moved + stored)
        together += _time(reader.arithmetic + arithmetic, reader.moved + reader.missing)
    return apart, together


def _time(arithmetic: float, moved: float) -> float:
    """How long one kernel takes."""
    return max(arithmetic, moved) + (1 - OVERLAP) * min(arithmetic, moved)
