"""A plan into the rows of a report. Start with `graph_report`."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from mixdown.core import Paint
from mixdown.core.why import reason
from mixdown.reports.model import CastRow, GraphReport, OpRow, SiteRow

if TYPE_CHECKING:
    from mixdown.core import Plan, Tensor

CAST_BYTES = 4 + 2
"""What a cast moves per element: float32 one way, 16 bits the other."""


def graph_report(plan: Plan, name: str, kind: str) -> GraphReport:
    """Everything a plan decided, and why, as rows."""
    return GraphReport(
        name=name,
        kind=kind,
        low=plan.policy.low,
        rewritten=plan.changes_anything,
        reason="" if plan.changes_anything else "nothing in it can be low",
        policy=plan.policy.to_dict(),
        ops=tuple(_op_row(plan, index, inputs) for index, inputs in enumerate(_inputs(plan))),
        casts=tuple(_cast_row(plan, plan.graph.tensors[cast.tensor], cast.to) for cast in plan.casts),
    )


def _inputs(plan: Plan) -> list[tuple[int, ...]]:
    """Per op, the ops whose values it reads."""
    sites = plan.graph.sites
    found: list[set[int]] = [set() for _ in plan.graph.ops]
    for source, targets in enumerate(plan.graph.successors):
        for target in targets:
            found[sites[target].op].add(sites[source].op)
    return [tuple(sorted(sources)) for sources in found]


def _op_row(plan: Plan, index: int, inputs: tuple[int, ...]) -> OpRow:
    op = plan.graph.ops[index]
    return OpRow(op.name, op.kind, op.function, tuple(_site_row(plan, site) for site in op.sites), inputs)


def _site_row(plan: Plan, site: int) -> SiteRow:
    stroke = plan.strokes[site][-1]
    return SiteRow(
        attribute=plan.graph.sites[site].attribute,
        dtype=_dtype(plan, stroke.paint),
        category=plan.scene.categories[site].value,
        stage=stroke.stage,
        reason=reason(plan.scene, plan.strokes, site),
        because=tuple(plan.graph.sites[cause].op for cause in stroke.because),
    )


def _cast_row(plan: Plan, tensor: Tensor, to: Paint) -> CastRow:
    known = tensor.shape is not None and None not in tensor.shape
    moved = prod(size for size in tensor.shape or () if size is not None) * CAST_BYTES if known else None
    return CastRow(tensor.name, plan.graph.sites[tensor.site].op, _dtype(plan, to), moved)


def _dtype(plan: Plan, paint: Paint) -> str:
    return plan.policy.low if paint is Paint.LOW else "float32"
