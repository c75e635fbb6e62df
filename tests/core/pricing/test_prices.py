"""The prices of kernels: what they look at, and what they ask for before they look."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.goldens.language import parse

from mixdown.core import Graph, Policy, make_plan
from mixdown.core.graph import ShapesOnDemand
from mixdown.core.pricing.fused_bytes import FusedPrices
from mixdown.core.pricing.moved_bytes import Prices
from mixdown.rules.tensorflow_traits import TRAITS

if TYPE_CHECKING:
    from collections.abc import Iterable

LINES = ["a = MatMul(x, w)", "r = Relu(a)", "b = MatMul(r, v)"]


class Asked(ShapesOnDemand):
    """Shapes that note what they were told to expect."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.expected: set[int] = set()

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, tensor: Any) -> Any:
        return (2, 3)

    def expect(self, tensors: Iterable[int]) -> None:
        self.expected = set(tensors)


def prices(sort: type[Prices]) -> tuple[Prices, Asked, dict[str, int]]:
    """Prices of the graph above, its shapes, and the site of each of its ops."""
    graph, _ = parse(LINES)
    shapes = Asked(len(graph.tensors))
    plan = make_plan(Graph(graph.ops, graph.sites, graph.tensors, shapes=shapes), Policy())
    shapes.expected = set()
    view = plan.view
    its = (
        FusedPrices(plan.graph, TRAITS, view.categories, view.supports, free=())
        if sort is FusedPrices
        else Prices(plan.graph, TRAITS)
    )
    return its, shapes, {op.name: op.sites[0] for op in plan.graph.ops}


def names(its: Prices, tensors: Iterable[int]) -> list[str]:
    return sorted(its.graph.tensors[tensor].name for tensor in tensors)


@pytest.mark.parametrize(
    ("sort", "near", "expected"), [(Prices, ["a", "r"], ["a", "r"]), (FusedPrices, ["a", "r", "v", "w", "x"], [])]
)
def test_only_prices_of_kernels_look_no_further_than_a_site(
    sort: type[Prices], near: list[str], expected: list[str]
) -> None:
    its, shapes, sites = prices(sort)
    its.expect([sites["r"]])
    assert names(its, shapes.expected) == expected
    assert names(its, its.near([sites["r"]])) == near
