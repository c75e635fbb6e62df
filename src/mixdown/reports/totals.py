"""A graph in numbers: all of it, by kind of op, or by layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mixdown.rules.op_names import layers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mixdown.reports.model import GraphReport


@dataclass(frozen=True)
class Totals:
    """How many ops, how many of them low, and what that takes in casts."""

    ops: int = 0
    low_ops: int = 0
    casts: int = 0
    bytes: int = 0  # of the casts whose size is known
    unsized_casts: int = 0

    def __add__(self, other: Totals) -> Totals:
        return Totals(
            self.ops + other.ops,
            self.low_ops + other.low_ops,
            self.casts + other.casts,
            self.bytes + other.bytes,
            self.unsized_casts + other.unsized_casts,
        )


def totals(graph: GraphReport) -> Totals:
    """The whole graph."""
    return sum(_per_op(graph), Totals())


def by_kind(graph: GraphReport) -> dict[str, Totals]:
    """Every kind of op, the most frequent first."""
    return _grouped(graph, [op.kind for op in graph.ops])


def by_layer(graph: GraphReport) -> dict[str, Totals]:
    """Every layer, that with the most ops first."""
    return _grouped(graph, layers([op.name for op in graph.ops]))


def _grouped(graph: GraphReport, groups: Sequence[str]) -> dict[str, Totals]:
    out: dict[str, Totals] = {}
    for group, one in zip(groups, _per_op(graph), strict=True):
        out[group] = out.get(group, Totals()) + one
    return dict(sorted(out.items(), key=lambda item: (-item[1].ops, item[0])))


def _per_op(graph: GraphReport) -> list[Totals]:
    """Per op, itself and the casts behind it."""
    out = [Totals(1, int(any(site.dtype == graph.low for site in op.sites))) for op in graph.ops]
    for cast in graph.casts:
        out[cast.op] += Totals(casts=1, bytes=cast.bytes or 0, unsized_casts=int(cast.bytes is None))
    return out
