"""Prices in time: what a finished plan takes at least on a named machine, for reports. Start with `TimePrices`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mixdown.core.graph import Graph
from mixdown.core.paint import Paint
from mixdown.core.pricing.machines import SIZES, Machine
from mixdown.core.pricing.moved_bytes import LOW_BYTES, Prices
from mixdown.rules import Traits

PICO = 10**12
"""Prices are whole numbers: picoseconds."""


@dataclass(frozen=True)
class Predicted:
    """Seconds of one run: as it was, and by a plan."""

    source: str  # for which machine, and how its times are known
    float32: float
    mixed: float

    def __str__(self) -> str:
        gain = self.float32 / self.mixed if self.mixed else 1.0
        return (
            f"Predicted {self.source}: float32 {self.float32 * 1e3:.3g} ms, "
            f"mixed {self.mixed * 1e3:.3g} ms a run, {gain:.2f} times as fast."
        )


class TimePrices(Prices):
    """What every choice takes on a machine: each op and each cast is a kernel."""

    def __init__(self, graph: Graph, traits: Traits, machine: Machine, low: str) -> None:
        super().__init__(graph, traits)
        self.machine, self._low = machine, low

    def low(self, site: int) -> int:
        """Picoseconds in 16 bits."""
        return self._time(site, self._low)

    def full(self, site: int) -> int:
        """Picoseconds in float32."""
        return self._time(site, "float32")

    def cast(self, tensor: int) -> int:
        """Picoseconds of a cast."""
        return round(self.machine.time("float32", 0, super().cast(tensor)) * PICO)

    def prediction(self, paints: Sequence[Paint]) -> Predicted:
        """What an assignment takes, beside float32."""
        float32 = self.seconds([Paint.FULL] * len(paints)) + self.machine.time("float32", 0, self.spared())
        return Predicted(self.machine.source, float32, self.seconds(paints))

    def seconds(self, paints: Sequence[Paint]) -> float:
        """What an assignment takes."""
        return self.traffic(paints).total / PICO

    def _time(self, site: int, dtype: str) -> int:
        graph, op = self.graph, self.graph.sites[site].op
        first = graph.ops[op].sites[0] == site  # an op does its arithmetic once
        operations = graph.work[op] if graph.work and first else 0
        return round(self.machine.time(dtype, operations, super().low(site) // LOW_BYTES * SIZES[dtype]) * PICO)
