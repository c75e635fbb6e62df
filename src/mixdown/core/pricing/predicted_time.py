"""Prices in time: what a plan takes at least on a named machine. Start with `TimePrices`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mixdown.core.clock import Clock, Kernel
from mixdown.core.graph import Graph, Op
from mixdown.core.paint import Paint
from mixdown.core.pricing.moved_bytes import LOW_BYTES, Prices
from mixdown.rules import Traits

PICO = 10**12
"""Prices are whole picoseconds: a cut needs exact numbers."""


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

    unit = "time"
    local = False  # in the end the whole graph is timed

    def __init__(self, graph: Graph, traits: Traits, machine: Clock, low: str) -> None:
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
        made, compiled = self.graph.tensors[tensor], self._op(self.graph.tensors[tensor].site).compiled
        return 0 if made.folds else round(self.machine.cast_time(self.elements(tensor), compiled=compiled) * PICO)

    def prediction(self, paints: Sequence[Paint]) -> Predicted:
        """What an assignment takes, beside float32."""
        return Predicted(self.machine.source, self.seconds([Paint.FULL] * len(paints)), self.seconds(paints))

    def seconds(self, paints: Sequence[Paint]) -> float:
        """What an assignment takes."""
        return self.traffic(paints).total / PICO

    def _time(self, site: int, dtype: str) -> int:
        op, graph = self._op(site), self.graph
        first = op.sites[0] == site  # an op does its arithmetic once
        operations = graph.work[graph.sites[site].op] if graph.work and first else 0
        family = self.traits.family(op.kind, operations)
        kernel = Kernel(family, operations, super().low(site) // LOW_BYTES, op.compiled)
        return round(self.machine.time(kernel, dtype) * PICO)

    def _op(self, site: int) -> Op:
        return self.graph.ops[self.graph.sites[site].op]
