"""Which values a fusing compiler stores and which kernels read them, found in rounds: `Rounds`.

Each round starts from what the one before found, and looks only at what that concerns. Whether a value is stored is
decided as the compiler does it, by time (`kernel_time.py`); what it costs is counted in bytes.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from math import inf

from mixdown.core.pricing.fusion_values import (
    FULL_BYTES,
    LOW_BYTES,
    MOST_KERNELS,
    NO_KERNELS,
    NOTHING,
    Kernels,
    Sources,
    Value,
    joined,
    merged,
    missing_of,
)
from mixdown.core.pricing.kernel_graph import BEHIND_VIEW, FAR, Kernel, KernelGraph
from mixdown.core.pricing.kernel_time import FusedReader, times

ROUNDS = 3
SMALL = 8
"""A value counts as a source of another one if it is at least one part in so many of its size."""

JOINED = 2.5
"""Less arithmetic than this is done anew in a reduction that the kernel which stores a value takes in."""
LONG = 2**12
"""A reduction of more numbers than this to one takes two steps, the first of which is taken in."""
WORTH_STORING = 2**16
"""Smaller values, in elements, are left to the compiler: a kernel takes some time to start."""
DOUBT = 0.3
"""What float32 is charged of the bytes of storing a value, where the model sees no difference: it may be mistaken."""
SURE = 1.5
"""A value is stored for certain if computing it anew takes so many times as long."""
SCATTERED = 4
"""How much longer a kernel takes to read what it computes in another order than it reads it in."""


class Rounds:
    """What is known of every value so far, and what of it has to be worked out again because something else changed."""

    def __init__(self, graph: KernelGraph, free: Collection[int]) -> None:
        self._graph, self._free = graph, free
        self._read, self._made, self._passes = graph.read, graph.made, graph.passes
        self._marks, self._views = graph.marks, graph.views
        self._reductions = {site: ~site for site in graph.reductions}
        first: dict[Kernel, Kernel] = {}
        self._joins = {~site: first.setdefault(kernel, ~site) for site, kernel in graph.reductions.items()}
        made, passes, tensors = graph.made, graph.passes, graph.graph.tensors
        self._alone = [frozenset((t,)) for t in range(len(tensors))]
        self.values = [
            Value(alone, tensor.site in graph.products, not passes[tensor.site], 0.0, NOTHING, NO_KERNELS)
            for alone, tensor in zip(self._alone, tensors, strict=True)
        ]
        self._sizes = list(graph.sizes)
        self._masks: dict[int, Sources] = {}
        self._add_masks()
        self.surely_stored: set[int] = set()
        self.stored_in_full: set[int] = set()
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
        self._priced_by: list[list[int]] = [[] for _ in self.values]  # per value, those that were priced by reading it
        # Per value, whether its sources, the kernels that read it, and its price have to be found again.
        self._old_sources, self._old_kernels, self._old_prices = ([True] * len(tensors) for _ in range(3))
        self._is_epilogue = cache(graph.is_epilogue)
        self._tells = graph.has_loops  # whether to note what a change concerns; at first, all of it comes later anyway

    def run(self) -> None:
        """Go through all values so often."""
        for left in reversed(range(ROUNDS)):
            self._find_sources()
            self._find_kernels(self._backward if left else self._backward + self._at_end)
            self._tells = True
            self._choose()
        tensors = frozenset(range(len(self.prices)))
        del self.values[len(tensors) :]
        for value in self.values:  # without masks and marks
            value.sources &= tensors
            value.kernels = {kernel: others & tensors for kernel, others in joined(value.kernels, self._joins).items()}

    def _add_masks(self) -> None:
        """Let what selects numbers read a mask, one byte a number: the graph has no tensors that are not numbers."""
        kinds, masked = self._graph.graph.kinds, self._graph.traits.masked
        for site, kind in enumerate(kinds):
            if kind in masked and self._graph.elementwise[site] and self._made[site]:
                mask = frozenset((len(self._sizes),))
                self._masks[site] = mask
                self._sizes.append(self._sizes[self._made[site][0]] // LOW_BYTES)
                self._alone.append(mask)
                self.values.append(Value(mask, low=True, stored=True, work=0.0, libraries=NOTHING, kernels=NO_KERNELS))

    def _find_sources(self) -> None:
        """Work out, makers first, which stored tensors every value is computed from, and by how much arithmetic."""
        values, sizes, old, read = self.values, self._sizes, self._old_sources, self._graph.read
        arithmetic, tells, masks = self._graph.work, self._tells, self._masks
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
            sources = NOTHING if value.stored else self._behind(read[site], low=value.low) | masks.get(site, NOTHING)
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

    def _behind(self, inputs: list[int], *, low: bool = False) -> Sources:
        """All that some values are computed from; what is 16-bit reads the copies that library calls are given."""
        values = self.values
        if low:
            copied = [bool(values[i].libraries) and not values[i].low for i in inputs]
            both = zip(inputs, copied, strict=True)
            return NOTHING.union(*[self._alone[i] if copy else values[i].sources for i, copy in both])
        if len(inputs) == 1:
            return values[inputs[0]].sources
        return NOTHING.union(*[values[i].sources for i in inputs])

    def _size_of(self, t: int, *, copies: bool, most: float = inf) -> int:
        """The bytes of a stored tensor, of at most so many elements; its copy for library calls has 16 bits."""
        value = self.values[t]
        return int(min(self._sizes[t], most)) * (LOW_BYTES if value.low or (copies and value.libraries) else FULL_BYTES)

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
                    kernels, libraries = merged([(kernels, libraries)])
            else:
                kernels, libraries = merged([read_by(t, reader) for reader in sites])
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
            kernels, libraries = self._passed_on(made[0], others, is_view)
        else:
            kernels, libraries = merged([self._passed_on(after, others, is_view) for after in made])
        if mark := self._marks[reader]:
            kernels = {kernel: more | mark for kernel, more in kernels.items()}
        return kernels, libraries

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
            prices[t], low, stored = (0, 0), False, False
            self.stored_in_full.discard(t)
            if len(value.kernels) + bool(value.libraries) > 1:  # or else whoever reads it computes it
                (in_low, low_stored), (in_full, full_stored) = self._price(t, site)
                prices[t], low = (in_low, in_full), in_low < in_full and site in free
                stored = low_stored if low else full_stored
            if low is not value.low:
                value.low = low
                self._old_sources[t] = True
                self._computed_anew(t)
                for other in self._priced_by[t]:
                    old[other] = True
            if stored is not value.stored:
                value.stored = stored
                self._old_sources[t] = True
                self._computed_anew(t)
                for before in self._graph.read[site]:
                    self._old_kernels[before] = True

    def _is_dear(self, t: int) -> bool:
        """Whether the compiler may not store a value, although the model says so, and need more to compute it anew."""
        tensors = self._graph.graph.tensors
        if t >= len(tensors):
            return False  # a mask
        site = tensors[t].site
        if not self._passes[site]:
            return t in self._dear
        is_sum = self._graph.graph.kinds[site] in self._graph.traits.sums
        return is_sum and not self.values[t].libraries and not self._is_epilogue(site)

    def _price(self, t: int, site: int) -> tuple[tuple[int, bool], tuple[int, bool]]:
        """What a value costs if it is computed in 16 bits, and whether it is stored then; the same for float32."""
        value, size = self.values[t], self._sizes[t]
        if self._is_epilogue(site):
            count = size * (1 + len(value.libraries) + len(joined(value.kernels, self._joins)))
            return (LOW_BYTES * count, True), (FULL_BYTES * count, True)
        own = 0.0 if value.stored else value.work * size
        rest = [(max(0.0, work - own), written) for work, written in map(self._made_by, value.kernels)]
        if value.libraries:
            kernels = value.libraries, joined(value.kernels, self._joins)
            read = sum(self._size_of(i, copies=True) for i in self._inputs(t, site, low=True))
            return (read + LOW_BYTES * size * (1 + sum(map(len, kernels))), True), self._cost(t, site, rest, low=False)
        in_low, low_stored = self._cost(t, site, rest, low=True)
        in_full, full_stored = self._cost(t, site, rest, low=False)
        # A function of one stored value is computed wherever that is read.
        inputs = max(len(value.sources), sum(self._sizes[i] > 1 for i in self._graph.read[site]))
        if full_stored and in_full > in_low:
            self.stored_in_full.add(t)
        if in_full >= in_low and inputs > 1 and size >= WORTH_STORING and site in self._free:
            doubtful = DOUBT * LOW_BYTES * size * (1 + len(joined(value.kernels, self._joins)))
            in_full = max(in_full, in_low + int(doubtful))
        return (in_low, low_stored), (in_full, full_stored)

    def _cost(self, t: int, site: int, rest: list[tuple[float, int]], *, low: bool) -> tuple[int, bool]:
        """What a value costs in one dtype, and whether it is stored; in 16 bits only if no library call reads it.

        Args:
            t: the value.
            site: what makes it.
            rest: per kernel that reads it, the arithmetic of all else in it, and the bytes that it writes.
            low: whether it has 16 bits.
        """
        value, size = self.values[t], self._sizes[t]
        sources = self._inputs(t, site, low=low)
        each = {source: self._size_of(source, copies=low) for source in sources}
        read, stored = sum(each.values()), size * (LOW_BYTES if low else FULL_BYTES)
        taken = self._taken_in(t, size, sources) if value.libraries else ()
        readers = []
        for (kernel, others), (arithmetic, written) in zip(value.kernels.items(), rest, strict=True):
            if kernel not in taken:
                moved = written + sum(self._size_of(other, copies=True, most=size) for other in others if other >= 0)
                missing = sum(each.values()) if BEHIND_VIEW in others else missing_of(each, others)
                readers.append(FusedReader(arithmetic, moved, missing * (SCATTERED if FAR in others else 1)))
        copied = 0
        if value.libraries:  # the copy for library calls is one more kernel
            readers.append(FusedReader(0.0, LOW_BYTES * size, read))
            copied = LOW_BYTES * size * (1 + len(value.libraries))
        apart, together = times(value.work * size, read, stored, readers)
        kernels = joined(value.kernels, self._joins)
        if not low:
            (self.surely_stored.add if together > SURE * apart else self.surely_stored.discard)(t)
        if apart < together:
            return copied + read + stored * (1 + len(kernels) + bool(value.libraries)), True
        anew = sum(missing_of(each, others) for kernel, others in kernels.items() if kernel not in taken)
        return anew + (copied + read if value.libraries else 0), False

    def _taken_in(self, t: int, size: int, sources: Sources) -> set[Kernel]:
        """The long reductions that read nothing else: the kernel that casts a value for library calls takes them in."""
        value, viewed = self.values[t], any(self._views[site] for site in self._graph.readers[t])
        if viewed or value.work >= JOINED or any(map(self._is_dear, sources)):
            return set()
        reductions = ((kernel, others) for kernel, others in value.kernels.items() if others <= sources)
        return {kernel for kernel, _ in reductions if LONG * self._results.get(kernel, inf) < size}

    def _inputs(self, t: int, site: int, *, low: bool) -> Sources:
        """The stored tensors that a value is computed from in one dtype, each of which is priced anew with it."""
        sizes = self._sizes
        sources = self._behind(self._graph.read[site], low=low) | self._masks.get(site, NOTHING)
        found = frozenset([each for each in sources if SMALL * sizes[each] >= sizes[t] and each != t])
        for source in found:
            self._priced_by[source].append(t)
        return found

    def _made_by(self, kernel: Kernel) -> tuple[float, int]:
        """The arithmetic of a kernel, and the bytes that it writes; of a reduction these are few."""
        values, sizes = self.values, self._sizes
        if kernel >= 0:
            made = values[kernel]
            width = LOW_BYTES if made.low or made.libraries else FULL_BYTES
            return made.work * sizes[kernel], width * sizes[kernel]
        return sum(values[i].work * sizes[i] for i in self._read[~kernel] if not values[i].stored), 0
