"""What a fusing compiler stores, and which kernels read it: `Fusion`. A model of XLA's GPU compiler.

Matrix products, convolutions and whatever else is not element-wise are kernels of their own: what they make is stored.
An element-wise value is computed inside the kernels that read it. If there are several, each computes it again from the
stored values behind it, unless it is cheaper to store it once: that depends on its dtype, on what these kernels read
anyway, and on how much arithmetic it takes. So what is stored is found in rounds, each of which starts from what the
one before found, and looks only at what that concerns.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from math import inf

from mixdown.core.pricing.fusion_rounds import LONG, SMALL, WORTH_STORING, Rounds
from mixdown.core.pricing.fusion_values import FULL_BYTES, LOW_BYTES, NOTHING, Sources, Value
from mixdown.core.pricing.kernel_graph import Kernel, KernelGraph

CHEAP = 9.0
"""Less arithmetic than this, counted as in `Value.work`, holds no error function."""


@dataclass(frozen=True)
class Fusion(KernelGraph):
    """A graph as compiled."""

    free: Collection[int]
    """The sites that may be low."""

    @cached_property
    def values(self) -> list[Value]:
        """Every tensor as the compiler sees it."""
        return self._settled[0]

    @cached_property
    def prices(self) -> list[tuple[int, int] | None]:
        """Per tensor, what it costs in 16 bits and in float32; None if no choice of the compiler is in it."""
        return self._settled[1]

    @cached_property
    def surely_stored(self) -> set[int]:
        """The values that the compiler stores whatever their dtype: to compute them anew would take much longer."""
        return self._settled[2]

    @cached_property
    def stored_in_full(self) -> set[int]:
        """The values that cost more in float32, and are stored then."""
        return self._settled[3]

    @cached_property
    def _settled(self) -> tuple[list[Value], list[tuple[int, int] | None], set[int], set[int]]:
        """All four; what else the rounds need is not kept."""
        rounds = Rounds(self, self.free)
        rounds.run()
        return rounds.values, rounds.prices, rounds.surely_stored, rounds.stored_in_full

    def pays_to_store(self, t: int) -> bool:
        """Whether to store a value in 16 bits moves fewer bytes than what the compiler does if it is not told to.

        It stores some values in any case, in float32; a sum it may compute anew wherever that is read. What selects or
        moves numbers is not asked: that needs no float32.
        """
        values, site = self.values, self.graph.tensors[t].site
        value, size = values[t], self.sizes[t]
        kind, traits = self.graph.kinds[site], self.traits
        if size < WORTH_STORING or not value.kernels or self.is_epilogue(site):
            return False
        sources = NOTHING.union(*(values[i].sources for i in self.read[site])) - {t}
        parts = any(self.sizes[source] > size for source in sources)  # of these it reads what it needs only
        if t in self.surely_stored and not (value.libraries or parts or kind in traits.moves | traits.masked):
            return self.elementwise[site]
        if kind not in traits.sums or not value.stored:
            return False
        behind = frozenset(source for source in sources if not self._is_spread(source))
        needed = {kernel: self._needed(kernel, size) for kernel in value.kernels}
        costs = [self._bytes(behind - others, needed[kernel]) for kernel, others in value.kernels.items()]
        read = LOW_BYTES * sum(needed.values())
        if value.libraries:  # it is stored for them in any case, by a kernel that takes in a single long reduction
            joins = len(costs) == 1 and self._is_long(max(value.kernels), size) and value.work < CHEAP
            return not joins and read < sum(costs)
        return self._bytes(behind, size) + LOW_BYTES * size + read < sum(costs)

    def _needed(self, kernel: Kernel, size: int) -> int:
        """How many numbers of a value a kernel needs: of a value that is cut up, as many as it makes."""
        return size if kernel < 0 else min(size, self.sizes[kernel])

    def _is_long(self, kernel: Kernel, size: int) -> bool:
        """Whether a kernel is a reduction of so many numbers to each one that it takes two steps."""
        return kernel < 0 and LONG * sum(self.sizes[t] for t in self.made[~kernel]) < size

    def _is_spread(self, t: int) -> bool:
        """Whether a value repeats small ones, which nobody stores."""
        site = self.graph.tensors[t].site
        return self.elementwise[site] and all(SMALL * self.sizes[i] < self.sizes[t] for i in self.read[site])

    def _bytes(self, tensors: Sources, most: float = inf) -> int:
        """What it takes to read these tensors, of each at most so many elements: a slice reads what it makes."""
        values = self.values
        return sum(int(min(self.sizes[t], most)) * (LOW_BYTES if values[t].low else FULL_BYTES) for t in tensors)
