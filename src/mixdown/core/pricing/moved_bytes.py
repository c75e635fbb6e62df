"""What a paint costs, in bytes moved. Start with `Prices`; `traffic` is the bill for a finished plan.

Here every op is a kernel of its own that reads its inputs and writes its outputs, and so is every cast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import NamedTuple

from mixdown.core.graph import Graph, Role, Shape, ShapesOnDemand
from mixdown.core.paint import Paint
from mixdown.core.pricing.machines import CAST_BYTES
from mixdown.rules import Traits

LOW_BYTES = 2

GUESS = 32
"""The size that a dimension counts with if it is not known: a usual batch."""


class Traffic(NamedTuple):
    """Bytes that the float32 ops of a graph move in one run, and the casts between them."""

    ops: int
    casts: int

    @property
    def total(self) -> int:
        """Both together."""
        return self.ops + self.casts


class Bond(NamedTuple):
    """A price that is paid once if a tensor's maker and any of some readers have different paints."""

    readers: tuple[int, ...]
    price: int
    only_down: bool = False  # paid only if the maker is full and a reader low
    only_up: bool = False  # paid only if the maker is low and a reader full
    as_if_low: bool = False  # whatever the maker is, it counts as low

    def paid(self, made: Paint, read: Sequence[Paint]) -> int:
        """What is paid under these paints."""
        made = Paint.LOW if self.as_if_low else made
        one_way = self.only_down if made is Paint.LOW else self.only_up
        return 0 if one_way or all(paint is made for paint in read) else self.price


class Prices:
    """The price of everything a plan can choose, computed when asked for: every op is a kernel of its own."""

    local = True
    """Whether a choice is priced by the tensors at its site alone."""

    def __init__(self, graph: Graph, traits: Traits) -> None:
        self.graph, self.traits = graph, traits
        self._counts: dict[int, int] = {}

    def low(self, site: int) -> int:
        """What a site's op moves in 16 bits."""
        graph = self.graph
        if graph.sites[site].role is Role.CONDUIT or graph.kinds[site] in self.traits.moves_nothing:
            return 0
        return LOW_BYTES * sum(map(self.elements, graph.touched[site]))

    def full(self, site: int) -> int:
        """What it moves in float32."""
        return 2 * self.low(site)

    def saving(self, site: int) -> int:
        """What the op saves by 16 bits; less than nothing if it loses."""
        return self.full(site) - self.low(site)

    def is_stored_wider(self, site: int) -> bool:  # noqa: ARG002 - no op is computed inside another kernel
        """Whether a compiler stores a value in float32, for certain, that it could store in 16 bits."""
        return False

    def cast(self, tensor: int) -> int:
        """What a cast of a tensor moves."""
        return 0 if self.graph.tensors[tensor].folds else CAST_BYTES * self.elements(tensor)

    def near(self, sites: Iterable[int]) -> Iterable[int]:
        """The tensors of which a bond may concern one of these sites, in order."""
        if not self.local:
            return range(len(self.graph.tensors))
        return sorted({tensor for site in sites for tensor in self.graph.touched[site]})

    def expect(self, sites: Iterable[int]) -> None:
        """Announce which sites will be priced, so that the shapes at them are inferred together."""
        if self.local and isinstance(self.graph.shapes, ShapesOnDemand):
            self.graph.shapes.expect(tensor for site in sites for tensor in self.graph.touched[site])

    def bonds(self, tensor: int) -> list[Bond]:
        """What it costs if the two ends of a tensor differ; only its readers are named."""
        return [Bond(self.graph.tensors[tensor].consumers, self.cast(tensor))]

    def elements(self, tensor: int) -> int:
        """How many numbers a tensor holds in all rounds of a loop together, with a guess for what is not known."""
        if tensor not in self._counts:
            self._counts[tensor] = _count(self._shape(tensor)) * self.graph.tensors[tensor].times
        return self._counts[tensor]

    def spared(self) -> int:
        """What the program itself moves in float32 beyond this graph, which has fewer ops."""
        return 2 * LOW_BYTES * sum(each.moves * self.elements(each.tensor) for each in self.graph.merged)

    def guessed(self) -> int:
        """Of the tensors whose size was asked for, how many have a size that is not known."""
        return sum(not is_known(self._shape(tensor)) for tensor in self._counts)

    def traffic(self, paints: Sequence[Paint]) -> Traffic:
        """What an assignment moves."""
        ops = sum(self.low(site) if paint is Paint.LOW else self.full(site) for site, paint in enumerate(paints))
        return Traffic(ops, sum(map(self._paid(paints), range(len(self.graph.tensors)))))

    def _paid(self, paints: Sequence[Paint]) -> Callable[[int], int]:
        """What the two ends of a tensor cost under an assignment."""

        def paid(tensor: int) -> int:
            its = self.graph.tensors[tensor]
            return sum(
                bond.paid(paints[its.site], [paints[reader] for reader in bond.readers]) for bond in self.bonds(tensor)
            )

        return paid

    def _shape(self, tensor: int) -> Shape:
        return self.graph.shapes[tensor] if self.graph.shapes else None


def is_known(shape: Shape) -> bool:
    """Whether a shape is fully known."""
    return shape is not None and None not in shape


def _count(shape: Shape) -> int:
    if shape is None:
        return GUESS * GUESS
    known: list[int] = [GUESS if size is None else size for size in shape]
    return prod(known)
