"""Which ops a fusing compiler puts into one kernel, as far as no dtype decides that: `KernelGraph`.

Matrix products, convolutions and whatever else is not element-wise are kernels of their own. A reduction takes in what
comes before it; an element-wise op is computed inside the kernels that read it, and a view is not computed at all.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

from mixdown.core.graph import Graph, Role
from mixdown.rules import Traits

BEHIND_VIEW, FAR = -1, -2
"""Marks beside the tensors that a kernel reads: it reads a value through a view, so that the compiler does not see that
it reads the sources of the value already; and in another order."""
Kernel = int
"""A kernel: the value that it makes; or a negative number for the reductions that it makes, see `reductions`."""


@dataclass(frozen=True)
class KernelGraph:
    """A graph, with the sizes of its tensors, as a compiler takes it apart."""

    graph: Graph
    traits: Traits
    sizes: Sequence[int]
    fused: Sequence[bool]
    """Per site, whether the compiler handles it."""
    products: Collection[int]
    """The sites that are low because matrix products are."""

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
    def views(self) -> list[bool]:
        """Per site, whether it returns the value that it is given."""
        graph, kinds = self.graph, self.traits.views
        return [kind in kinds or site.role is Role.CONDUIT for kind, site in zip(graph.kinds, graph.sites, strict=True)]

    @cached_property
    def marks(self) -> list[frozenset[int]]:
        """Per site, how kernels behind it read what it reads: nothing to say, unless it is a view or moves numbers."""
        moves = self.traits.moves - self.traits.spreads
        moving = [kind in moves for kind in self.graph.kinds]
        return [
            self._mark(site, moves=its) if (its or view) and self.read[site] and self.made[site] else frozenset()
            for site, (its, view) in enumerate(zip(moving, self.views, strict=True))
        ]

    def _mark(self, site: int, *, moves: bool) -> frozenset[int]:
        shapes = [self.graph.shapes[t] for t in (self.read[site][0], self.made[site][0])] if self.graph.shapes else []
        if len(set(shapes)) == 1:
            return frozenset((BEHIND_VIEW,)) if moves else frozenset()
        last = {next((size for size in reversed(shape or ()) if size != 1), 1) for shape in shapes}
        return frozenset((BEHIND_VIEW, FAR)) if len(last) > 1 else frozenset((BEHIND_VIEW,))

    @cached_property
    def passes(self) -> list[bool]:
        """Per site, whether what it makes need not be stored."""
        return [one or other for one, other in zip(self.elementwise, self.views, strict=True)]

    @cached_property
    def reductions(self) -> dict[int, Kernel]:
        """The sites that the compiler fuses with what comes before them only -> the kernel.

        Reductions in one kernel agree in their level and size.
        """
        kinds = self.traits.reductions - self.traits.normalizations
        sites = [site for site, kind in enumerate(self.graph.kinds) if kind in kinds and self.fused[site]]
        alike = [(self.levels[site], sum(self.sizes[t] for t in self.made[site])) for site in sites]
        numbers = {each: ~number for number, each in enumerate(dict.fromkeys(alike))}
        return {site: numbers[each] for site, each in zip(sites, alike, strict=True)}

    @cached_property
    def work(self) -> list[float]:
        """Per site, its arithmetic, as the bytes an element that take as long to read; moving a value takes none."""
        kinds = self.graph.kinds
        by_kind = {kind: self.traits.work(kind) for kind in set(kinds)}
        return [0.0 if view else by_kind[kind] for view, kind in zip(self.views, kinds, strict=True)]

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
        for index, sites in enumerate(self._consumers):
            for site in sites:
                out[site].append(index)
        return out

    @cached_property
    def _consumers(self) -> list[Sequence[int]]:
        """Per tensor, the sites that read it, each once."""
        each = (tensor.consumers for tensor in self.graph.tensors)
        return [sites if len(sites) < 2 else list(dict.fromkeys(sites)) for sites in each]  # noqa: PLR2004 - a pair

    @cached_property
    def readers(self) -> list[Sequence[int]]:
        """Per tensor, the sites that read more of it than its shape."""
        blind = [kind in self.traits.looks_at_shapes for kind in self.graph.kinds]
        if True not in blind:
            return self._consumers
        return [[site for site in sites if not blind[site]] for sites in self._consumers]

    @cached_property
    def levels(self) -> list[int]:
        """Per site, how many kernels of those that fuse no result have to run before it is done."""
        makers, read, passes = [tensor.site for tensor in self.graph.tensors], self.read, self.passes
        out = [0] * len(self.graph.sites)
        for site in self.order:
            before = 0
            for t in read[site]:
                level = out[makers[t]]
                before = level if level > before else before  # noqa: FURB136 - max() takes four times as long
            out[site] = before if passes[site] else before + 1
        return out

    @cached_property
    def has_loops(self) -> bool:
        """Whether a value is read by a site that comes before its maker in `order`."""
        place = [0] * len(self.order)
        for number, site in enumerate(self.order):
            place[site] = number
        return any(place[reader] <= place[t.site] for t in self.graph.tensors for reader in t.consumers)

    @cached_property
    def order(self) -> list[int]:
        """All sites, each after those it reads from; loops are cut where they close."""
        predecessors = self.graph.predecessors
        seen: set[int] = set()
        out: list[int] = []
        for root, before in enumerate(predecessors):
            if root not in seen and seen.issuperset(before):  # as it usually is
                seen.add(root)
                out.append(root)
                continue
            stack = [root]
            while stack:
                here = stack.pop()
                if here < 0:
                    out.append(~here)
                elif here not in seen:
                    seen.add(here)
                    stack.append(~here)
                    stack.extend([source for source in predecessors[here] if source not in seen])
        return out
