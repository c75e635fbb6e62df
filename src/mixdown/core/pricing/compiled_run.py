"""What lies in memory between the kernels of a compiled graph, once a plan is finished: `CompiledRun`.

Prices compare plans; they do not add up to the bytes that a run moves. Here every stored value is billed once for each
kernel that writes or reads it, with the dtype that the plan gave it; `Fusion` says what is stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from mixdown.core.graph import Graph, Role
from mixdown.core.paint import Paint
from mixdown.core.pricing.fused_bytes import FULL_BYTES, FusedPrices
from mixdown.core.pricing.machines import Machine
from mixdown.core.pricing.moved_bytes import LOW_BYTES, Prices
from mixdown.rules import Category, Traits

WIDTHS = {Paint.LOW: LOW_BYTES, Paint.FULL: FULL_BYTES}


class Buffer(NamedTuple):
    """A value in memory, in one dtype."""

    tensor: int
    width: int  # bytes an element
    written: int  # by how many kernels: none, if it is an argument
    libraries: tuple[int, ...]  # the sites that run on their own and read it
    fused: int  # how many fused kernels read it

    @property
    def times(self) -> int:
        """How often it is written and read."""
        return self.written + len(self.libraries) + self.fused


class CompiledRun:
    """One run of a graph that is compiled as a whole or in part, by the paints of a finished plan."""

    def __init__(self, graph: Graph, traits: Traits, categories: Sequence[Category], paints: Sequence[Paint]) -> None:
        self.graph, self.traits, self.paints = graph, traits, paints
        low = [paint is Paint.LOW for paint in paints]
        free = {site for site, its in enumerate(low) if its}
        self._prices = FusedPrices(graph, traits, categories, low, free)
        self._alone = Prices(graph, traits)

    @property
    def bytes(self) -> int:
        """The bytes that all kernels write and read."""
        return sum(map(self.size, self.stored)) + sum(moved for _, moved in self._outside())

    def seconds(self, machine: Machine, low: str) -> float:
        """How long the run takes on a machine at least: products by arithmetic or bytes, other kernels by bytes."""
        moved = dict.fromkeys(self._products, 0)
        rest = sum(count for _, count in self._outside())
        for one in self.stored:
            each = one.width * self._prices.elements(one.tensor)
            maker = self.graph.tensors[one.tensor].site
            ends = [*one.libraries, *([maker] * one.written)]
            for site in ends:
                if site in moved:
                    moved[site] += each
            rest += each * (one.times - sum(site in moved for site in ends))
        times = [machine.time(self._dtype(site, low), self._products[site], count) for site, count in moved.items()]
        return sum(times) + machine.time("float32", 0, rest)

    def size(self, one: Buffer) -> int:
        """The bytes that a value is written and read with."""
        return one.width * one.times * self._prices.elements(one.tensor)

    @cached_property
    def stored(self) -> list[Buffer]:
        """Every value that lies in memory between kernels."""
        return [one for tensor in range(len(self.graph.tensors)) for one in self._stored(tensor) if one.times]

    def _stored(self, tensor: int) -> Iterator[Buffer]:
        """In which dtypes a value lies in memory, and who reads it there."""
        fusion, site = self._prices.fusion, self.graph.tensors[tensor].site
        if not fusion.fused[site] or (fusion.views[site] and fusion.read[site]):
            return  # outside of the compiled part, or the same memory as what it shows
        if self._is_absorbed(tensor):
            return
        value, own = fusion.values[tensor], self.paints[site]
        readers: dict[Paint, list[int]] = {Paint.LOW: [], Paint.FULL: []}
        for reader in sorted(value.libraries - self._silent):
            readers[self.paints[reader]].append(reader)
        other = Paint.FULL if own is Paint.LOW else Paint.LOW
        if readers[other]:  # an element-wise kernel writes both; else a cast reads one and writes the other
            yield Buffer(tensor, WIDTHS[other], 1, tuple(readers[other]), 0)
        fused = len(value.kernels) + self._last[tensor] + bool(readers[other] and not fusion.elementwise[site])
        if not fusion.elementwise[site]:
            yield Buffer(tensor, WIDTHS[own], self._writes(tensor), tuple(readers[own]), fused)
        elif value.stored or readers[own] or self._leaves[tensor]:
            yield Buffer(tensor, WIDTHS[own], 1, tuple(readers[own]), fused if value.stored else 0)

    def _is_absorbed(self, tensor: int) -> bool:
        """Whether the library call that makes a value adds a bias to it before it stores it."""
        fusion, made = self._prices.fusion, self.graph.tensors[tensor]
        readers = made.consumers
        while len(readers) == 1 and fusion.views[readers[0]] and len(fusion.made[readers[0]]) == 1:
            readers = self.graph.tensors[fusion.made[readers[0]][0]].consumers
        first = self.graph.ops[self.graph.sites[made.site].op].sites[0]
        return first in self._products and len(readers) == 1 and fusion.is_epilogue(readers[0])

    @cached_property
    def _last(self) -> list[int]:
        """Per tensor, how many kernels read it that make nothing but results, each of them one or several."""
        fusion, out = self._prices.fusion, [0] * len(self.graph.tensors)
        made: dict[int, list[frozenset[int]]] = {}  # by their size, what these kernels read
        leaves = [t for t, its in enumerate(self._leaves) if its and fusion.elementwise[self.graph.tensors[t].site]]
        values = [fusion.values[t] for t in leaves]
        for t, value in sorted(zip(leaves, values, strict=True), key=lambda item: -len(item[1].sources)):
            if value.stored or value.libraries - self._silent:
                continue
            for source in value.sources if value.libraries else ():
                out[source] -= 1  # the model has counted a kernel for every write to a variable
            kernels = made.setdefault(self._prices.elements(t), [])
            if not any(value.sources <= read for read in kernels):
                kernels.append(value.sources)
                for source in value.sources - {t}:
                    out[source] += 1
        return out

    def _writes(self, tensor: int) -> int:
        """How often a value that no kernel computes in passing is written: an argument never; rows are looked up."""
        made = self.graph.tensors[tensor]
        kind = self.graph.kinds[made.site]
        given = kind in self.traits.reads or kind in self.traits.arguments
        if made.folds or given or self.graph.sites[made.site].role is Role.CONDUIT:
            return 0
        return 2 if kind in self.traits.lookups else 1

    @cached_property
    def _silent(self) -> set[int]:
        """The sites that read less than the values they are given: those that write variables, or look rows up."""
        quiet = self.traits.lookups
        sites = enumerate(self.graph.sites)
        return {index for index, site in sites if site.role is Role.WRITE or self.graph.kinds[index] in quiet}

    @cached_property
    def _leaves(self) -> list[bool]:
        """Per tensor, whether it is a result or the new value of a variable, maybe seen through views."""
        fusion, out = self._prices.fusion, [False] * len(self.graph.tensors)
        for site in reversed(fusion.order):
            for tensor in fusion.made[site]:
                out[tensor] = any(
                    self.graph.sites[reader].role is Role.WRITE
                    or (fusion.views[reader] and (not fusion.made[reader] or any(out[t] for t in fusion.made[reader])))
                    for reader in self.graph.tensors[tensor].consumers
                )
        return out

    @cached_property
    def _products(self) -> dict[int, int]:
        """The arithmetic of matrix products and convolutions, by the first site of each."""
        work = self.graph.work
        return {op.sites[0]: work[index] for index, op in enumerate(self.graph.ops) if work and work[index]}

    def _dtype(self, site: int, low: str) -> str:
        return low if self.paints[site] is Paint.LOW else "float32"

    def _outside(self) -> Iterator[tuple[int, int]]:
        """What the ops that are not compiled move, and the casts between them: site and bytes."""
        fusion = self._prices.fusion
        for site, paint in enumerate(self.paints):
            if not fusion.fused[site] and fusion.read[site]:
                yield site, self._alone.low(site) if paint is Paint.LOW else self._alone.full(site)
        for index, tensor in enumerate(self.graph.tensors):
            made = self.paints[tensor.site]
            if not fusion.fused[tensor.site] and any(self.paints[reader] is not made for reader in tensor.consumers):
                yield tensor.site, self._alone.cast(index)
