"""What a fusing compiler knows of one tensor: `Value`, with the kernels that read it.

Also how kernels are put together: those that several readers stand for, `merged`, and reductions, `joined`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mixdown.core.pricing.kernel_graph import Kernel

LOW_BYTES, FULL_BYTES = 2, 4
MOST_KERNELS = 8
"""So many of the kernels that read a value are told apart."""

Sources = frozenset[int]
"""Stored tensors."""
NOTHING: Sources = frozenset()
Kernels = dict[Kernel, Sources]
"""Fused kernels that read a value, with what else they read."""
NO_KERNELS: Kernels = {}


@dataclass(slots=True)
class Value:
    """A tensor as the compiler sees it. Its sets and its table are replaced, never changed."""

    sources: Sources  # the stored tensors it is computed from; itself, if it is stored
    low: bool  # stored in 16 bits, if it is stored
    stored: bool
    work: float  # arithmetic to compute it from its sources, as the bytes an element that take as long to read
    libraries: Sources  # sites that read it and run on their own
    kernels: Kernels


def merged(parts: list[tuple[Kernels, Sources]]) -> tuple[Kernels, Sources]:
    """All kernels, or as many as are told apart."""
    out: Kernels = {}
    libraries = NOTHING
    for kernels, alone in parts:
        if alone:
            libraries |= alone
        for kernel, others in kernels.items():
            if kernel in out:
                out[kernel] |= others
            elif len(out) < MOST_KERNELS:
                out[kernel] = others
    return out, libraries


def joined(kernels: Kernels, joins: Mapping[Kernel, Kernel]) -> Kernels:
    """The kernels after those reductions were joined that agree in their level and size: by the first of each."""
    out: Kernels = {}
    for kernel, others in kernels.items():
        first = joins.get(kernel, kernel)
        out[first] = out[first] | others if first in out else others
    return out


def missing_of(each: Mapping[int, int], others: Sources) -> int:
    """The bytes of some sources that a kernel does not read anyway."""
    return sum(size for source, size in each.items() if source not in others)
