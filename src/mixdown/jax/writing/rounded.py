"""Which 16-bit values float32 ops read as they are stored: `read_rounded`.

XLA may leave out the rounding of a value that it computed in float32 (an option named xla_allow_excess_precision). If a
matrix product reads that value too, it is then stored twice: in 16 bits for the product, in float32 for the others.
"""

from __future__ import annotations

from mixdown.core import Category, Paint, Plan, Role
from mixdown.core.graph import walk
from mixdown.core.pricing import FusedPrices


def read_rounded(plan: Plan) -> frozenset[int]:
    """The tensors that are made in 16 bits, are read in float32 too, and are stored in 16 bits in any case."""
    view, graph, paints, prices = plan.view, plan.graph, plan.paints, plan.view.prices
    if not isinstance(prices, FusedPrices):
        return frozenset()
    products = [site for site in view.sites_of(Category.ALLOW) if paints[site] is Paint.LOW]
    passing = [kind in view.traits.passes for kind in graph.kinds]
    before = {*products, *walk(products, graph.predecessors, passing)}
    own = {graph.sites[site].op for site in products}
    return frozenset(
        cast.tensor
        for cast in plan.casts
        if cast.to is Paint.FULL
        and prices.is_kept(cast.tensor)
        and graph.sites[graph.tensors[cast.tensor].site].role in (Role.PLAIN, Role.DERIVATIVE)
        and graph.sites[graph.tensors[cast.tensor].site].op not in own
        and not before.isdisjoint(graph.tensors[cast.tensor].consumers)
    )
