"""What every choice of a plan costs. In: a graph, its host's traits, and the machine if time decides; out: `Prices`.

The door is `prices_of`. `Prices` counts bytes moved if every op is a kernel of its own, `FusedPrices` the bytes that a
fusing compiler stores, `TimePrices` the seconds on a machine.
"""

from __future__ import annotations

from collections.abc import Sequence

from mixdown.core.clock import Clock
from mixdown.core.graph import Graph
from mixdown.core.pricing.fused_bytes import FusedPrices
from mixdown.core.pricing.moved_bytes import Prices, Traffic
from mixdown.core.pricing.predicted_time import Predicted, TimePrices
from mixdown.rules import Category, Traits

__all__ = ["FusedPrices", "Predicted", "Prices", "TimePrices", "Traffic", "prices_of"]


def prices_of(
    graph: Graph,
    traits: Traits,
    categories: Sequence[Category],
    supports: Sequence[bool],
    *,
    machine: Clock | None,
    low: str,
) -> Prices:
    """The prices by which a graph is planned: time if a machine is named, else bytes, fused or not.

    Args:
        graph: the graph.
        traits: what its kinds do.
        categories: per site, its category.
        supports: per site, whether it may change and its op has a 16-bit kernel.
        machine: the machine whose time decides, None if bytes do.
        low: the 16-bit dtype.
    """
    if machine is not None:
        return TimePrices(graph, traits, machine, low)
    return FusedPrices(graph, traits, categories, supports) if graph.is_compiled else Prices(graph, traits)
