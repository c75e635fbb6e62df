"""Prices in time: what a plan takes at least on a named machine. Start with `predict`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mixdown.core.paint import Paint
from mixdown.core.prices import Prices

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mixdown.core.graph import Graph
    from mixdown.core.machines import Machine
    from mixdown.core.plan import Cast, Plan

PICO = 10**12
"""Prices are whole picoseconds: a cut needs exact numbers."""


class Predicted(NamedTuple):
    """Seconds of one run: as it was, and by a plan."""

    machine: str
    float32: float
    mixed: float

    def __str__(self) -> str:
        gain = self.float32 / self.mixed if self.mixed else 1.0
        return (
            f"Predicted for {self.machine} (a roofline, not a measurement): float32 {self.float32 * 1e3:.3g} ms, "
            f"mixed {self.mixed * 1e3:.3g} ms a run, {gain:.2f} times as fast."
        )


class TimePrices(Prices):
    """What every choice takes on a machine: each op and each cast is a kernel."""

    unit = "time"

    def __init__(self, graph: Graph, machine: Machine, low: str) -> None:
        super().__init__(graph)
        self.machine, self._low = machine, low

    def low(self, site: int) -> int:
        """Picoseconds in 16 bits."""
        return self._time(site, self._low, super().low(site))

    def full(self, site: int) -> int:
        """Picoseconds in float32."""
        return self._time(site, "float32", 2 * super().low(site))

    def cast(self, tensor: int) -> int:
        """Picoseconds of a cast."""
        return round(self.machine.seconds("float32", 0, super().cast(tensor)) * PICO)

    def seconds(self, paints: Sequence[Paint], casts: Iterable[Cast]) -> float:
        """What a plan takes."""
        return self.traffic(paints, casts).total / PICO

    def _time(self, site: int, dtype: str, moved: int) -> int:
        graph = self.graph
        first = graph.ops[graph.sites[site].op].sites[0] == site  # an op does its arithmetic once
        operations = graph.work[graph.sites[site].op] if graph.work and first else 0
        return round(self.machine.seconds(dtype, operations, moved) * PICO)


def predict(plan: Plan, machine: Machine) -> Predicted:
    """What a plan takes on a machine, beside float32."""
    prices = TimePrices(plan.graph, machine, plan.policy.low)
    full = prices.seconds([Paint.FULL] * len(plan.paints), ())
    return Predicted(machine.name, full, prices.seconds(plan.paints, plan.casts))
