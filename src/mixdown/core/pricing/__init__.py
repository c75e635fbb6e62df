"""What every choice of a plan costs. In: a graph and its host's traits; out: `Prices`.

The door is `prices_of`. `Prices` counts bytes moved if every op is a kernel of its own, `FusedPrices` the bytes that a
fusing compiler stores. For reports, `TimePrices` predicts how long a finished plan takes on a machine, and
`CompiledRun` how many bytes and how long if it is compiled.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mixdown.core.graph import Graph
from mixdown.core.pricing.compiled_run import CompiledRun
from mixdown.core.pricing.fused_bytes import FusedPrices
from mixdown.core.pricing.moved_bytes import Prices, Traffic
from mixdown.core.pricing.predicted_time import Predicted, TimePrices
from mixdown.rules import Category, Traits

__all__ = ["CompiledRun", "FusedPrices", "Predicted", "Prices", "TimePrices", "Traffic", "prices_of"]


def prices_of(
    graph: Graph,
    traits: Traits,
    categories: Sequence[Category],
    supports: Sequence[bool],
    free: Collection[int],
) -> Prices:
    """The prices by which a graph is planned: bytes, fused or not.

    Args:
        graph: the graph.
        traits: what its kinds do.
        categories: per site, its category.
        supports: per site, whether it may change and its op has a 16-bit kernel.
        free: the sites that may be low.
    """
    return FusedPrices(graph, traits, categories, supports, free) if graph.is_compiled else Prices(graph, traits)
