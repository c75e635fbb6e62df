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

from mixdown.core.pricing.kernel_graph import Kernel, KernelGraph

LOW_BYTES, FULL_BYTES = 2, 4
ROUNDS = 3
MOST_KERNELS = 6
"""So many of the kernels that read a value are told apart."""
SMALL = 8
"""A value counts as a source of another one if it is at least one part in so many of its size."""

CHEAP = 2.0
"""Less arithmetic than this, counted as in `Value.work`, holds no exponential and no error function."""
JOINED = 1.0
"""Less arithmetic than this is done anew in a reduction that the kernel which stores a value takes in."""
LONG = 2**13
"""A reduction of so many numbers to one takes two steps, the first of which is taken in; of 4,096 it is not."""
WORTH_STORING = 2**16
"""Smaller values, in elements, are left to the compiler: a kernel takes some time to start."""

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
    def _settled(self) -> tuple[list[Value], list[tuple[int, int] | None]]:
        """Both; what else the rounds need is not kept."""
        rounds = _Rounds(self, self.free)
        rounds.run()
        return rounds.values, rounds.prices

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
        sources = NOTHING.union(*(values[i].sources for i in self.read[site])) - {t}
        behind = frozenset(source for source in sources if not self._is_spread(source))
        costs = [self._bytes(behind - others, size) for others in value.kernels.values()]
        read = LOW_BYTES * size * len(costs)
        if value.libraries:  # it is stored for them in any case, by a kernel that takes a single cheap reduction in
            joins = len(costs) == 1 and max(value.kernels) < 0 and value.work < CHEAP
            return not joins and read < sum(costs)
        return self._bytes(behind, size) + LOW_BYTES * size + read < sum(costs)

    def _is_spread(self, t: int) -> bool:
        """Whether a value repeats small ones, which nobody stores."""
        site = self.graph.tensors[t].site
        return self.elementwise[site] and all(SMALL * self.sizes[i] < self.sizes[t] for i in self.read[site])

    def _bytes(self, tensors: Sources, most: float = inf) -> int:
        """What it takes to read these tensors, of each at most so many elements: a slice reads what it makes."""
        values = self.values
        return sum(int(min(self.sizes[t], most)) * (LOW_BYTES if values[t].low else FULL_BYTES) for t in tensors)


class _Rounds:
    """What is known of every value so far, and what of it has to be worked out again because something else changed."""

    def __init__(self, graph: KernelGraph, free: Collection[int]) -> None:
        self._graph, self._free = graph, free
        self._read, self._made, self._passes = graph.read, graph.made, graph.passes
        self._views, self._reductions = graph.views, graph.reductions
        made, passes, tensors = graph.made, graph.passes, graph.graph.tensors
        self._alone = [frozenset((t,)) for t in range(len(tensors))]
        self.values = [
            Value(alone, tensor.site in graph.products, not passes[tensor.site], 0.0, NOTHING, NO_KERNELS)
            for alone, tensor in zip(self._alone, tensors, strict=True)
        ]
        self.prices: list[tuple[int, int] | None] = [None] * len(tensors)
        # Computed anew by the compiler, although the model says they are stored: softmax in a loss, rows looked up.
        lookups = [site for site, kind in enumerate(graph.graph.kinds) if kind in graph.traits.lookups]
        self._dear = {t for site in (*self._reductions, *lookups) for t in made[site]}
        # By the kernel of a reduction, how many numbers it makes.
        results = ((kernel, sum(graph.sizes[t] for t in made[site])) for site, kernel in self._reductions.items())
        self._results = {kernel: count for kernel, count in results if count}
        self._forward = [(t, site) for site in graph.order if passes[site] for t in made[site]]
        backward = [(t, site) for site in reversed(graph.order) for t in made[site]]
        # What is stored in any case has a say in no choice, so its readers are found at the end; loops have none.
        self._backward = backward if graph.has_loops else [each for each in backward if passes[each[1]]]
        self._at_end = [] if graph.has_loops else [each for each in backward if not passes[each[1]]]
        self._choices = [(t, site) for t, site in self._forward if graph.elementwise[site] and graph.read[site]]
        self._unread = [not tensor.consumers for tensor in tensors]
        self._priced_by: list[list[int]] = [[] for _ in tensors]  # per value, those that were priced by reading it
        # Per value, whether its sources, the kernels that read it, and its price have to be found again.
        self._old_sources, self._old_kernels, self._old_prices = ([True] * len(tensors) for _ in range(3))
        self._epilogues: dict[int, bool] = {}
        self._tells = graph.has_loops  # whether to note what a change concerns; at first, all of it comes later anyway

    def run(self) -> None:
        """Go through all values so often."""
        for left in reversed(range(ROUNDS)):
            self._find_sources()
            self._find_kernels(self._backward if left else self._backward + self._at_end)
            self._tells = True
            self._choose()

    def _find_sources(self) -> None:
        """Work out, makers first, which stored tensors every value is computed from, and by how much arithmetic."""
        values, sizes, old, read = self.values, self._graph.sizes, self._old_sources, self._graph.read
        arithmetic, tells = self._graph.work, self._tells
        for t, site in self._forward:
            if not old[t]:
                continue
            old[t] = False
            value, size, work = values[t], sizes[t], 0.0
            for i in read[site]:
                before = values[i]
                if not before.stored and 2 * sizes[i] >= size:
                    work += before.work
            work += arithmetic[site]
            sources = NOTHING if value.stored else self._behind(read[site])
            for source in sources:
                if SMALL * sizes[source] < size:
                    sources = frozenset([each for each in sources if SMALL * sizes[each] >= size])
                    break
            if not sources:
                sources = self._alone[t]
            if tells and (work != value.work or sources != value.sources):
                self._computed_anew(t)
                if sources != value.sources:
                    self._read_anew(t)
            value.sources, value.work = sources, work

    def _behind(self, inputs: list[int]) -> Sources:
        """All that some values are computed from."""
        values = self.values
        if len(inputs) == 1:
            return values[inputs[0]].sources
        return NOTHING.union(*[values[i].sources for i in inputs])

    def _computed_anew(self, t: int) -> None:
        """Another way to compute a value is another way to compute what is made of it."""
        self._old_prices[t] = True
        made, old = self._graph.made, self._old_sources
        for reader in self._graph.graph.tensors[t].consumers:
            for after in made[reader]:
                old[after] = True

    def _read_anew(self, t: int) -> None:
        """A value that is computed from others is read beside its neighbours in other kernels."""
        made, read, kernels, prices = self._graph.made, self._graph.read, self._old_kernels, self._old_prices
        for reader in self._graph.readers[t]:
            for beside in read[reader]:
                kernels[beside] = True
            for after in made[reader]:
                prices[after] = True

    def _find_kernels(self, some: list[tuple[int, int]]) -> None:
        """Work out, readers first, which kernels read some values, and what else these read."""
        values, old, tells, readers = self.values, self._old_kernels, self._tells, self._graph.readers
        read, passes, read_by = self._graph.read, self._graph.passes, self._read_by
        for t, site in some:
            if not old[t]:
                continue
            old[t] = False
            sites = readers[t]
            if len(sites) == 1:
                kernels, libraries = read_by(t, sites[0])
                if len(kernels) > MOST_KERNELS:
                    kernels, libraries = _merged([(kernels, libraries)])
            else:
                kernels, libraries = _merged([read_by(t, reader) for reader in sites])
            value = values[t]
            if tells and (kernels != value.kernels or libraries != value.libraries):
                self._old_prices[t] = True
                for before in read[site] if passes[site] else ():
                    old[before] = True
            value.kernels, value.libraries = kernels, libraries

    def _read_by(self, t: int, reader: int) -> tuple[Kernels, Sources]:
        """The fused kernels that a reader stands for, and the sites that run on their own."""
        inputs = self._read[reader]
        if len(inputs) == 1:
            others = NOTHING
        elif len(inputs) == 2:  # noqa: PLR2004 - this one and another
            others = self.values[inputs[inputs[0] == t]].sources
        else:
            others = self._behind([i for i in inputs if i != t])
        if not self._passes[reader]:
            reduction = self._reductions.get(reader)
            return (NO_KERNELS, frozenset((reader,))) if reduction is None else ({reduction: others}, NOTHING)
        made, is_view = self._made[reader], self._views[reader]
        if len(made) == 1:
            return self._passed_on(made[0], others, is_view)
        return _merged([self._passed_on(after, others, is_view) for after in made])

    def _passed_on(self, t: int, others: Sources, is_view: bool) -> tuple[Kernels, Sources]:  # noqa: FBT001 - often called
        """The same, for a reader that computes a value in whichever kernels read that, which read others besides."""
        value = self.values[t]
        if value.stored and not is_view:
            return {t: others}, NOTHING
        kernels = value.kernels
        if not others:
            pass
        elif len(kernels) == 1:
            ((kernel, more),) = kernels.items()
            kernels = {kernel: more | others}
        else:
            kernels = {kernel: more | others for kernel, more in kernels.items()}
        if self._unread[t] or (value.libraries and not is_view):
            kernels = {t: others, **kernels}
        return kernels, value.libraries if is_view else NOTHING

    def _choose(self) -> None:
        """Choose, makers first, for every element-wise value what is cheaper: its dtype, and whether it is stored."""
        values, old, prices, free = self.values, self._old_prices, self.prices, self._free
        for t, site in self._choices:
            if not old[t]:
                continue
            old[t] = False
            value = values[t]
            if len(value.kernels) + bool(value.libraries) <= 1:  # whoever reads it computes it
                prices[t], low, stored = (0, 0), False, False
            else:
                (in_low, low_stored), (in_full, full_stored) = self._price(t, site)
                prices[t], low = (in_low, in_full), in_low < in_full and site in free
                stored = low_stored if low else full_stored
            if low is not value.low:
                value.low = low
                for other in self._priced_by[t]:
                    old[other] = True
            if stored is not value.stored:
                value.stored = stored
                self._old_sources[t] = True
                self._computed_anew(t)
                for before in self._graph.read[site]:
                    self._old_kernels[before] = True

    def _is_epilogue(self, site: int) -> bool:
        if site not in self._epilogues:
            self._epilogues[site] = self._graph.is_epilogue(site)
        return self._epilogues[site]

    def _is_dear(self, t: int) -> bool:
        """Whether the compiler may not store a value, although the model says so, and need more to compute it anew."""
        site = self._graph.graph.tensors[t].site
        if not self._passes[site]:
            return t in self._dear
        is_sum = self._graph.graph.kinds[site] in self._graph.traits.sums
        return is_sum and not self.values[t].libraries and not self._is_epilogue(site)

    def _price(self, t: int, site: int) -> tuple[tuple[int, bool], tuple[int, bool]]:
        """What a value costs if it is computed in 16 bits, and whether it is stored then; the same for float32."""
        values, sizes = self.values, self._graph.sizes
        value, size = values[t], sizes[t]
        fused, libraries = len(value.kernels), len(value.libraries)
        if self._is_epilogue(site):
            count = size * (1 + libraries + fused)
            return (LOW_BYTES * count, True), (FULL_BYTES * count, True)
        behind = value.sources
        if t in behind:
            behind = self._behind(self._graph.read[site]) - self._alone[t]
        # A long reduction that reads nothing else is taken in by the kernel that casts the value for library calls.
        joins = libraries and value.work < JOINED and not any(map(self._is_dear, behind))
        longest = size // LONG if joins else 0
        kernels = [
            others
            for kernel, others in value.kernels.items()
            if self._results.get(kernel, inf) > longest or not others <= behind
        ]
        read, again, priced_by = 0, int(value.work * size) * len(kernels), self._priced_by
        for source in behind:
            priced_by[source].append(t)
            each = sizes[source] * (LOW_BYTES if values[source].low else FULL_BYTES)
            read += each
            for others in kernels:
                if source not in others:
                    again += each
        if libraries:  # these take 16 bits of it in any case
            own = read + LOW_BYTES * size * (1 + libraries)
            low = own + LOW_BYTES * size * fused, True
            return low, min((own + again, False), (own + FULL_BYTES * size * (fused + 1), True))
        low = min((again, False), (read + LOW_BYTES * size * (1 + fused), True))
        return low, min((again, False), (read + FULL_BYTES * size * (1 + fused), True))


def _merged(parts: list[tuple[Kernels, Sources]]) -> tuple[Kernels, Sources]:
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
