"""Turns a plan into the rows of a report: `graph_report`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mixdown.core import Paint, Plan
from mixdown.core.paint import casts_of
from mixdown.core.pricing.machines import CAST_BYTES
from mixdown.core.pricing.moved_bytes import is_known
from mixdown.core.why import causes, reason
from mixdown.reports.advice import Product, advise
from mixdown.reports.model import CastRow, GraphReport, OpRow, SiteRow

KEPT = "kept"
KEPT_REASON = "the session had it before the graph grew, and ops that a session has keep their dtype"


class Facts(NamedTuple):
    """What a host knows of a graph beyond what a plan needs."""

    sources: Sequence[str] = ()  # per op, the line of the user's program that made it
    products: Sequence[Product] = ()
    paints: Sequence[Paint] = ()  # what each site has, where a session had to keep what it had before


def graph_report(plan: Plan, name: str, kind: str, facts: Facts | None = None) -> GraphReport:
    """All decisions of a plan with their reasons, and the casts they need, as rows."""
    facts = facts or Facts()
    ops = [_op_row(plan, index, inputs, facts) for index, inputs in enumerate(_inputs(plan))]
    paints = facts.paints or plan.paints
    low = {site.op for site, paint in zip(plan.graph.sites, paints, strict=True) if paint is Paint.LOW}
    return GraphReport(
        name=name,
        kind=kind,
        low=plan.policy.low,
        rewritten=bool(low),
        reason="" if low else plan.idle_reason or KEPT_REASON,
        policy=plan.policy.to_dict(),
        ops=tuple(ops),
        casts=tuple(_cast_row(plan, tensor, to) for tensor, to in casts_of(plan.graph, paints)),
        advice=advise([op.name for op in ops], [product for product in facts.products if product.op in low]),
    )


def _inputs(plan: Plan) -> list[tuple[int, ...]]:
    """Per op, the ops whose values it reads."""
    sites = plan.graph.sites
    found: list[set[int]] = [set() for _ in plan.graph.ops]
    for source, targets in enumerate(plan.graph.successors):
        for target in targets:
            found[sites[target].op].add(sites[source].op)
    return [tuple(sorted(sources)) for sources in found]


def _op_row(plan: Plan, index: int, inputs: tuple[int, ...], facts: Facts) -> OpRow:
    op = plan.graph.ops[index]
    source = facts.sources[index] if facts.sources else ""
    return OpRow(
        op.name, op.kind, op.function, tuple(_site_row(plan, site, facts) for site in op.sites), inputs, source
    )


def _site_row(plan: Plan, site: int, facts: Facts) -> SiteRow:
    graph, stroke, paint = plan.graph, plan.strokes[site][-1], (facts.paints or plan.paints)[site]
    kept = stroke.paint is not paint  # a session cannot change the dtypes of ops that it has already run
    because = () if kept else causes(plan.view, plan.strokes, site)
    return SiteRow(
        attribute=graph.sites[site].attribute,
        dtype=_dtype(plan, paint),
        category=plan.view.categories[site].value,
        stage=KEPT if kept else stroke.stage,
        reason=KEPT_REASON if kept else reason(plan.view, plan.strokes, site),
        because=tuple(graph.sites[cause].op for cause in because),
        because_of=tuple(graph.ops[graph.sites[cause].op].sites.index(cause) for cause in because),
    )


def _cast_row(plan: Plan, index: int, to: Paint) -> CastRow:
    tensor, shape = plan.graph.tensors[index], plan.graph.shapes[index] if plan.graph.shapes else None
    moved = plan.view.prices.elements(index) * CAST_BYTES if is_known(shape) else None
    return CastRow(tensor.name, plan.graph.sites[tensor.site].op, _dtype(plan, to), moved)


def _dtype(plan: Plan, paint: Paint) -> str:
    return plan.policy.low if paint is Paint.LOW else "float32"
