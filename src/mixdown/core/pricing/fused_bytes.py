"""Prices under a compiler that fuses, fitted to what XLA's GPU compiler stores. Start with `FusedPrices`.

Matrix products, convolutions and whatever else is not element-wise run on their own: what they make is stored. An
element-wise value is stored only if a kernel of that sort reads it, or if several kernels read it and recomputing it
would cost more: several stored inputs, or an expensive function. Casts are free inside a kernel. So a paint matters
where a value is stored, and a value that is recomputed should have the paint of the kernels that do so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

from mixdown.core.graph import Graph, walk
from mixdown.core.pricing.moved_bytes import LOW_BYTES, Bond, Prices
from mixdown.rules import Category, Traits

FULL_BYTES = 2 * LOW_BYTES
HINT = 1
"""One byte, to decide between equal costs: fewer casts to compile, and views painted like their neighbours."""


class Value(NamedTuple):
    """A tensor as the compiler sees it."""

    alone: bool  # made by a kernel of its own
    kept: bool  # stored, because several kernels read it and recomputing it would cost more
    sources: frozenset[int]  # the stored tensors it is computed from
    costly: bool = False  # by a costly function


class FusedPrices(Prices):
    """The prices of a graph of which parts, or all, are compiled; the rest costs what it costs without a compiler."""

    local = False

    def __init__(self, graph: Graph, traits: Traits, categories: Sequence[Category], supports: Sequence[bool]) -> None:
        super().__init__(graph, traits)
        self._kinds, self._categories = graph.kinds, categories
        allowed = {site for site, its in enumerate(categories) if its is Category.ALLOW and supports[site]}
        self._allowed = {site for each in allowed for site in graph.ops[graph.sites[each].op].sites}
        compiled = [graph.ops[site.op].compiled for site in graph.sites]
        self._fused = [
            its or (kind in traits.arguments and any(compiled[reader] for reader in readers))
            for its, kind, readers in zip(compiled, graph.kinds, graph.successors, strict=True)
        ]

    def low(self, site: int) -> int:
        """What is stored of a site's values, and read again, if they have 16 bits."""
        return self._stored(site)[0] if self._fused[site] else super().low(site)

    def full(self, site: int) -> int:
        """The same in float32."""
        return self._stored(site)[1] if self._fused[site] else 2 * super().low(site)

    def concerned(self, tensor: int) -> Iterable[int]:
        """The readers, and those behind views, which agree or disagree with the maker itself."""
        made = self.graph.tensors[tensor]
        return (*made.consumers, *self._readers(tensor)) if self._fused[made.site] else made.consumers

    def bonds(self, tensor: int) -> list[Bond]:
        """What it costs if readers that recompute a value have another paint than its maker."""
        made = self.graph.tensors[tensor]
        if not self._fused[made.site]:
            return super().bonds(tensor)
        needless = Bond(made.consumers, 2 * HINT)
        count = self.elements(tensor)
        down = [
            Bond((site,), FULL_BYTES * count, only_down=True)
            for site in made.consumers
            if self._is_recomputed(site, count)
        ]
        follow = []  # a clear op commutes with rounding: better before it, if all that read it are low
        if self._categories[made.site] is Category.CLEAR:
            follow = [Bond((site,), HINT) for site in made.consumers]
        return [needless, *down, *follow, *(Bond((reader,), price) for reader, price in self._agreements(tensor))]

    def is_kept(self, tensor: int) -> bool:
        """Whether an element-wise value is stored, because recomputing it for each of its readers would cost more."""
        return self._values[tensor].kept

    def _is_recomputed(self, site: int, count: int) -> bool:
        """Whether several kernels recompute a site's values of this size: low ones made from full ones are stored."""
        if not self._fused[site] or self._kinds[site] in self.traits.views or self._starts_kernel(site):
            return False
        made = [tensor for tensor in self._made[site] if self.elements(tensor) == count]
        again = [t for t in made if not self._values[t].alone and not self._values[t].kept]
        return any(alone == 0 and fused > 1 for alone, fused in map(self._readers_by_sort, again))

    def _stored(self, site: int) -> tuple[int, int]:
        if self._kinds[site] in self.traits.views:
            return 0, HINT
        each = [self._stored_tensor(tensor, site) for tensor in self._made[site]]
        return sum(low for low, _ in each), sum(full for _, full in each)

    def _stored_tensor(self, tensor: int, site: int) -> tuple[int, int]:
        """Bytes that a value takes in 16 bits, and in float32."""
        count, value = self.elements(tensor), self._values[tensor]
        alone, fused = self._readers_by_sort(tensor)
        low, full = LOW_BYTES * count * (1 + alone + fused), FULL_BYTES * count * (1 + alone + fused)
        if value.alone:
            return low, full
        for_alone = LOW_BYTES * count * (1 + alone) if alone else 0  # these take 16 bits in any case
        if value.kept:
            return low, for_alone + (FULL_BYTES * count * (1 + fused) if fused else 0)
        return for_alone, for_alone + (full if len(value.sources) == 1 and self._is_taken_in(site) else 0)

    def _is_taken_in(self, site: int) -> bool:
        """Whether the library call before a site would store its value for it, were it low; not that of an update."""
        return (
            self._kinds[site] not in self.traits.sums and site in self._before_allow and self._is_behind_library(site)
        )

    def _readers_by_sort(self, tensor: int) -> tuple[int, int]:
        readers = self._readers(tensor)
        alone = sum(self._runs_alone(reader) for reader in readers)
        return alone, len(readers) - alone

    def _agreements(self, tensor: int) -> Iterable[tuple[int, int]]:
        made = self.graph.tensors[tensor]
        if self._kinds[made.site] in self.traits.views:
            return
        value, readers = self._values[tensor], self._readers(tensor)
        for reader in readers:
            if value.alone and self._runs_alone(reader):
                yield reader, LOW_BYTES * self.elements(tensor)  # a cast that finds nothing to fuse with
            elif (
                len(readers) > 1
                and not (value.alone or self._starts_kernel(reader))
                and self._categories[reader] is Category.CLEAR
            ):
                yield reader, FULL_BYTES * self.elements(tensor)

    def _runs_alone(self, site: int) -> bool:
        kind = self._kinds[site]
        return not self._fused[site] or not (
            kind in self.traits.elementwise or kind in self.traits.reductions or kind in self.traits.views
        )

    def _starts_kernel(self, site: int) -> bool:
        return self._runs_alone(site) or self._kinds[site] in self.traits.reductions

    def _is_behind_library(self, site: int) -> bool:
        """Whether a site's op can be taken in by the library call before it."""
        if self._categories[site] is not Category.INFER:
            return False
        queue = list(self.graph.predecessors[site])
        for here in queue:
            if here in self._allowed:
                return True
            if self._kinds[here] in self.traits.views:
                queue.extend(source for source in self.graph.predecessors[here] if source not in queue)
        return False

    def _readers(self, tensor: int) -> list[int]:
        """The sites that really read a value: also through views, and not those that look at its shape only."""
        found: list[int] = []
        queue = [tensor]
        for here in queue:
            for site in self.graph.tensors[here].consumers:
                if self._kinds[site] in self.traits.views:
                    queue.extend(made for made in self._made[site] if made not in queue)
                elif self._kinds[site] not in self.traits.looks_at_shapes and site not in found:
                    found.append(site)
        return found

    @cached_property
    def _before_allow(self) -> Collection[int]:
        """The sites that have a part in what an allow op reads."""
        return walk(sorted(self._allowed), self.graph.dependencies, [True] * len(self.graph.sites)).keys()

    @cached_property
    def _made(self) -> list[list[int]]:
        """Per site, the tensors it makes."""
        out: list[list[int]] = [[] for _ in self.graph.sites]
        for index, tensor in enumerate(self.graph.tensors):
            out[tensor.site].append(index)
        return out

    @cached_property
    def _values(self) -> list[Value]:
        """Every tensor as the compiler sees it, in the order in which they are made."""
        read: list[list[int]] = [[] for _ in self.graph.sites]
        for index, tensor in enumerate(self.graph.tensors):
            for site in tensor.consumers:
                read[site].append(index)
        out = [Value(alone=True, kept=False, sources=frozenset((index,))) for index in range(len(self.graph.tensors))]
        for site in _makers_first(self.graph.predecessors):
            sources = [source for each in read[site] for source in out[each].sources]
            costly = any(out[each].costly for each in read[site])
            for made in self._made[site]:
                out[made] = self._value(made, site, sources, costly=costly)
        return out

    def _value(self, tensor: int, site: int, sources: list[int], *, costly: bool) -> Value:
        kind, own = self._kinds[site], frozenset((tensor,))
        if kind in self.traits.views:
            return Value(alone=False, kept=False, sources=frozenset(sources) or own, costly=costly)
        large = frozenset(source for source in sources if 2 * self.elements(source) >= self.elements(tensor))
        bias = kind not in self.traits.sums or len(large) <= 1  # rather than the sum of two results
        absorbed = bias and kind in self.traits.epilogues and self._is_behind_library(site)
        if self._starts_kernel(site) or absorbed or not sources:
            return Value(alone=True, kept=False, sources=own)
        costly, readers = costly or kind in self.traits.costly, self._readers(tensor)
        inner = any(not self._starts_kernel(reader) for reader in readers)
        many = len(large) - 1 + (inner or costly) > 1  # two stored values are enough if computing with them takes more
        kept = len(readers) > 1 and (kind in self.traits.costly or many)
        return Value(alone=False, kept=kept, sources=own if kept else large, costly=costly and not kept)


def _makers_first(predecessors: list[list[int]]) -> list[int]:
    """All sites, each after those it reads from; loops are cut where they close."""
    out: list[int] = []
    seen: set[int] = set()
    for root in range(len(predecessors)):
        stack = [root]
        while stack:
            here = stack.pop()
            if here < 0:
                out.append(~here)
            elif here not in seen:
                seen.add(here)
                stack.append(~here)
                stack.extend(source for source in predecessors[here] if source not in seen)
    return out
