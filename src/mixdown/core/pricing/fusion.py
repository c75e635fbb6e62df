"""What a fusing compiler stores, and which kernels read it: `Fusion`. A model of XLA's GPU compiler.

Matrix products, convolutions and whatever else is not element-wise are kernels of their own: what they make is stored.
An element-wise value is computed inside the kernels that read it. If there are several, each computes it again from the
stored values behind it, unless it is cheaper to store it once: that depends on its dtype, on what these kernels read
anyway, and on how much arithmetic it takes. So what is stored is found in rounds, each of which starts from what the
one before found.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf

from mixdown.core.graph import Graph, Role
from mixdown.rules import Traits

LOW_BYTES, FULL_BYTES = 2, 4
ROUNDS = 3
MOST_KERNELS = 6
"""So many of the kernels that read a value are told apart."""
SMALL = 8
"""A value counts as a source of another one if it is at least one part in so many of its size."""

CHEAP = 2.0
"""Less arithmetic than this, counted as in `Value.work`, holds no exponential and no error function."""
WORTH_STORING = 2**16
"""Smaller values, in elements, are left to the compiler: a kernel takes some time to start."""

Sources = frozenset[int]
"""Stored tensors."""
Kernel = tuple[int, int]
"""A kernel: VALUE and what it makes; or, for reductions, their level and size, in which those in one kernel agree."""
VALUE = -1


@dataclass
class Value:
    """A tensor as the compiler sees it."""

    sources: Sources  # the stored tensors it is computed from; itself, if it is stored
    work: float = 0.0  # arithmetic to compute it from these, as the bytes an element that take as long to read
    low: bool = False  # stored in 16 bits, if it is stored
    stored: bool = True
    libraries: set[int] = field(default_factory=set)  # sites that read it and run on their own
    kernels: dict[Kernel, Sources] = field(default_factory=dict)  # fused kernels that read it, with what else they read

    def add(self, kernel: Kernel, others: Sources) -> None:
        """Note a kernel that reads it."""
        if kernel in self.kernels or len(self.kernels) < MOST_KERNELS:
            self.kernels[kernel] = self.kernels.get(kernel, frozenset()) | others


@dataclass(frozen=True)
class Fusion:
    """A graph, with the sizes of its tensors, as compiled."""

    graph: Graph
    traits: Traits
    sizes: Sequence[int]
    fused: Sequence[bool]
    """Per site, whether the compiler handles it."""
    products: Collection[int]
    """The sites that are low because matrix products are."""
    free: Collection[int]
    """The sites that may be low."""

    @cached_property
    def values(self) -> list[Value]:
        """Every tensor as the compiler sees it."""
        return self._found[0]

    @cached_property
    def prices(self) -> list[tuple[int, int] | None]:
        """Per tensor, what it costs in 16 bits and in float32; None if no choice of the compiler is in it."""
        return self._found[1]

    @cached_property
    def _found(self) -> tuple[list[Value], list[tuple[int, int] | None]]:
        tensors = self.graph.tensors
        values = [
            Value(frozenset((t,)), low=tensor.site in self.products, stored=not self._passes(tensor.site))
            for t, tensor in enumerate(tensors)
        ]
        prices: list[tuple[int, int] | None] = [None] * len(tensors)
        for _ in range(ROUNDS):
            self._find_sources(values)
            self._find_kernels(values)
            for site in self.order:
                if not (self.elementwise[site] and self.read[site]):
                    continue
                for t in self.made[site]:
                    low, full = self._price(values, t, LOW_BYTES), self._price(values, t, FULL_BYTES)
                    value = values[t]
                    value.low = site in self.free and low[0] < full[0]
                    value.stored = low[1] if value.low else full[1]
                    prices[t] = low[0], full[0]
        return values, prices

    def _passes(self, site: int) -> bool:
        return self.elementwise[site] or self.views[site]

    def _find_sources(self, values: list[Value]) -> None:
        """Work out, makers first, which stored tensors every value is computed from, and by how much arithmetic."""
        for site in self.order:
            inputs = self.read[site]
            behind: Sources = frozenset().union(*(values[t].sources for t in inputs))
            own = 0.0 if self.views[site] else self.traits.work(self.graph.kinds[site])
            for t in self.made[site]:
                value, size = values[t], self.sizes[t]
                value.sources, value.work = frozenset((t,)), 0.0
                if not self._passes(site):
                    continue
                value.work = own + sum(
                    values[i].work for i in inputs if not values[i].stored and 2 * self.sizes[i] >= size
                )
                large = frozenset(source for source in behind if SMALL * self.sizes[source] >= size)
                if not value.stored and large:
                    value.sources = large

    def _find_kernels(self, values: list[Value]) -> None:
        """Work out, readers first, which kernels read every value, and what else these read."""
        for site in reversed(self.order):
            for t in self.made[site]:
                value = values[t]
                value.libraries, value.kernels = set(), {}
                for reader in dict.fromkeys(self.graph.tensors[t].consumers):
                    self._add_reader(values, t, reader)

    def _add_reader(self, values: list[Value], t: int, reader: int) -> None:
        value = values[t]
        if self.graph.kinds[reader] in self.traits.looks_at_shapes:
            return
        others: Sources = frozenset().union(*(values[i].sources for i in self.read[reader] if i != t))
        if self.reductions[reader]:
            value.add((self.levels[reader], sum(self.sizes[made] for made in self.made[reader])), others)
        elif not self._passes(reader):
            value.libraries.add(reader)
        for made in self.made[reader] if self._passes(reader) else ():
            onward, is_view = values[made], self.views[reader]
            if is_view:
                value.libraries |= onward.libraries
            ends = (onward.stored or onward.libraries) and not is_view
            if ends or not self.graph.tensors[made].consumers:
                value.add((VALUE, made), others)
            if not (onward.stored and not is_view):
                for kernel, more in onward.kernels.items():
                    value.add(kernel, more | others)

    def _price(self, values: list[Value], t: int, width: int) -> tuple[int, bool]:
        """What a value costs if it is computed in a dtype of this width, and whether it is stored then."""
        value, size, site = values[t], self.sizes[t], self.graph.tensors[t].site
        fused, libraries = len(value.kernels), len(value.libraries)
        if fused + (libraries > 0) <= 1:
            return 0, False  # whoever reads it computes it
        if self.is_epilogue(site):
            return width * size * (1 + libraries + fused), True
        behind = value.sources
        if t in behind:
            behind = frozenset().union(*(values[i].sources for i in self.read[site])) - {t}
        read = self._bytes(values, behind)
        again = sum(self._bytes(values, behind - others) + int(value.work * size) for others in value.kernels.values())
        if libraries:  # these take 16 bits of it in any case
            own = read + LOW_BYTES * size * (1 + libraries)
            if width == LOW_BYTES:
                return own + LOW_BYTES * size * fused, True
            return min((own + again, False), (own + FULL_BYTES * size * (fused + 1), True))
        return min((again, False), (read + width * size * (1 + fused), True))

    def pays_to_store(self, t: int) -> bool:
        """Whether to store a sum in 16 bits moves fewer bytes than to compute it wherever it is read.

        What selects or moves numbers is not asked: that needs no float32.
        """
        values, site = self.values, self.graph.tensors[t].site
        value, size = values[t], self.sizes[t]
        if size < WORTH_STORING or self.graph.kinds[site] not in self.traits.sums:
            return False
        if not value.stored or not value.kernels or self.is_epilogue(site):
            return False
        sources: Sources = frozenset().union(*(values[i].sources for i in self.read[site])) - {t}
        behind = frozenset(source for source in sources if not self._is_spread(source))
        costs = [self._bytes(values, behind - others, size) for others in value.kernels.values()]
        read = LOW_BYTES * size * len(costs)
        if value.libraries:  # it is stored for them in any case, by a kernel that takes a single cheap reduction in
            joins = len(costs) == 1 and all(level != VALUE for level, _ in value.kernels) and value.work < CHEAP
            return not joins and read < sum(costs)
        return self._bytes(values, behind, size) + LOW_BYTES * size + read < sum(costs)

    def _is_spread(self, t: int) -> bool:
        """Whether a value repeats small ones, which nobody stores."""
        site = self.graph.tensors[t].site
        return self.elementwise[site] and all(SMALL * self.sizes[i] < self.sizes[t] for i in self.read[site])

    def _bytes(self, values: list[Value], tensors: Sources, most: float = inf) -> int:
        """What it takes to read these tensors, of each at most so many elements: a slice reads what it makes."""
        return sum(int(min(self.sizes[t], most)) * (LOW_BYTES if values[t].low else FULL_BYTES) for t in tensors)

    def is_epilogue(self, site: int) -> bool:
        """Whether a library call adds this bias itself, and then stores the sum: in float32, if that is asked for."""
        kind, traits = self.graph.kinds[site], self.traits
        if kind not in traits.epilogues and kind not in traits.sums:
            return False
        size = max(self.sizes[t] for t in self.made[site])
        large = [t for t in self.read[site] if 2 * self.sizes[t] >= size]
        return len(large) == 1 and self.graph.tensors[self._viewed(large[0])].site in self.products

    def _viewed(self, t: int) -> int:
        """The tensor that a chain of views shows."""
        site = self.graph.tensors[t].site
        while self.views[site] and self.read[site]:
            t = self.read[site][0]
            site = self.graph.tensors[t].site
        return t

    @cached_property
    def elementwise(self) -> list[bool]:
        """Per site, whether the compiler fuses it with its neighbours on both sides."""
        kinds = self.traits.elementwise | self.traits.normalizations
        return [its and kind in kinds for its, kind in zip(self.fused, self.graph.kinds, strict=True)]

    @cached_property
    def reductions(self) -> list[bool]:
        """Per site, whether the compiler fuses it with what comes before it only."""
        kinds = self.traits.reductions - self.traits.normalizations
        return [its and kind in kinds for its, kind in zip(self.fused, self.graph.kinds, strict=True)]

    @cached_property
    def views(self) -> list[bool]:
        """Per site, whether it returns the value that it is given."""
        graph, kinds = self.graph, self.traits.views
        return [kind in kinds or site.role is Role.CONDUIT for kind, site in zip(graph.kinds, graph.sites, strict=True)]

    @cached_property
    def made(self) -> list[list[int]]:
        """Per site, the tensors it makes."""
        out: list[list[int]] = [[] for _ in self.graph.sites]
        for index, tensor in enumerate(self.graph.tensors):
            out[tensor.site].append(index)
        return out

    @cached_property
    def read(self) -> list[list[int]]:
        """Per site, the tensors it reads."""
        out: list[list[int]] = [[] for _ in self.graph.sites]
        for index, tensor in enumerate(self.graph.tensors):
            for site in dict.fromkeys(tensor.consumers):
                out[site].append(index)
        return out

    @cached_property
    def levels(self) -> list[int]:
        """Per site, how many kernels of those that fuse no result have to run before it is done."""
        out = [0] * len(self.graph.sites)
        for site in self.order:
            before = max((out[self.graph.tensors[t].site] for t in self.read[site]), default=0)
            out[site] = before + (not self._passes(site))
        return out

    @cached_property
    def order(self) -> list[int]:
        """All sites, each after those it reads from; loops are cut where they close."""
        return list(_makers_first(self.graph.predecessors))


def _makers_first(predecessors: list[list[int]]) -> Iterator[int]:
    seen: set[int] = set()
    for root in range(len(predecessors)):
        stack = [root]
        while stack:
            here = stack.pop()
            if here < 0:
                yield ~here
            elif here not in seen:
                seen.add(here)
                stack.append(~here)
                stack.extend(source for source in predecessors[here] if source not in seen)
