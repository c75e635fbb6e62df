"""Turns a plan into the rows of a report: `graph_report`.

Functions get the names that they have in Python, with a number behind those that would be the same.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from mixdown.core import Paint, Plan
from mixdown.core.paint import casts_of
from mixdown.core.plan import reads_of
from mixdown.core.pricing.effort import Effort, effort_of
from mixdown.core.pricing.machines import CAST_BYTES, Machine
from mixdown.core.pricing.moved_bytes import is_known
from mixdown.core.why import causes, reason
from mixdown.reports.advice import Product, advise
from mixdown.reports.model import CastRow, GraphReport, MergedRow, OpRow, SiteRow
from mixdown.rules.layer_names import python_name

KEPT = "kept"
KEPT_REASON = "the session had it before the graph grew, and ops that a session has keep their dtype"
_REGISTERED = re.compile(r"__(?:inference|forward|backward)_[^\s`.]+")


class Facts(NamedTuple):
    """What a host knows of a graph beyond what a plan needs."""

    sources: Sequence[str] = ()  # per op, the line of the user's program that made it
    products: Sequence[Product] = ()
    paints: Sequence[Paint] = ()  # what each site has, where a session had to keep what it had before
    machine: Machine | None = None  # the device to predict times for


def graph_report(plan: Plan, name: str, kind: str, facts: Facts | None = None) -> GraphReport:
    """All decisions of a plan with their reasons, and the casts they need, as rows."""
    facts = facts or Facts()
    paints = facts.paints or plan.paints
    effort = effort_of(plan.view.prices, paints)  # first: it has all shapes inferred at once
    names = python_names([op.function for op in plan.graph.ops])
    ops = [_op_row(plan, index, inputs, facts, names) for index, inputs in enumerate(_inputs(plan))]
    low = {site.op for site, paint in zip(plan.graph.sites, paints, strict=True) if paint is Paint.LOW}
    casts = casts_of(plan.graph, paints, reads_of(plan.view, paints))
    return GraphReport(
        name=name,
        kind=kind,
        low=plan.policy.low,
        rewritten=bool(low),
        reason="" if low else plan.idle_reason or KEPT_REASON,
        policy=plan.policy.to_dict(),
        ops=tuple(ops),
        casts=tuple(_cast_row(plan, tensor, to) for tensor, to in casts),
        advice=advise([op.name for op in ops], [product for product in facts.products if product.op in low]),
        effort=_predicted(plan, paints, effort, facts.machine),
        is_compiled=plan.graph.is_compiled,
        merged=tuple(MergedRow(each.op, each.parts) for each in plan.graph.merged),
    )


def _predicted(plan: Plan, paints: Sequence[Paint], effort: Effort, machine: Machine | None) -> Effort:
    """The effort with times for a machine, if one is named, and of a compiled graph with the bytes of its kernels."""
    times = (plan.predicted(machine),) if machine else ()
    if not plan.graph.is_compiled:
        return replace(effort, predicted=times)
    float32, mixed = (run.bytes for run in plan.compiled_runs(paints))
    return replace(effort, bytes=mixed, float32_bytes=float32, predicted=times)


def python_names(functions: Sequence[str]) -> dict[str, str]:
    """Functions by the names under which they are registered -> their names in Python, each one different."""
    seen: Counter[str] = Counter()
    out = {}
    for function in dict.fromkeys(functions):
        plain = python_name(function)
        seen[plain] += 1
        out[function] = plain if seen[plain] == 1 else f"{plain}#{seen[plain]}"
    return out


def _inputs(plan: Plan) -> list[tuple[int, ...]]:
    """Per op, the ops whose values it reads."""
    sites = plan.graph.sites
    found: list[set[int]] = [set() for _ in plan.graph.ops]
    for source, targets in enumerate(plan.graph.successors):
        for target in targets:
            found[sites[target].op].add(sites[source].op)
    return [tuple(sorted(sources)) for sources in found]


def _op_row(plan: Plan, index: int, inputs: tuple[int, ...], facts: Facts, names: Mapping[str, str]) -> OpRow:
    op, prices = plan.graph.ops[index], plan.view.prices
    return OpRow(
        op.name,
        op.kind,
        names[op.function],
        tuple(_site_row(plan, site, facts, names) for site in op.sites),
        inputs,
        source=facts.sources[index] if facts.sources else "",
        flops=plan.graph.work[index] if plan.graph.work else 0,
        bytes=2 * sum(map(prices.low, op.sites)),
    )


def _site_row(plan: Plan, site: int, facts: Facts, names: Mapping[str, str]) -> SiteRow:
    graph, stroke, paint = plan.graph, plan.strokes[site][-1], (facts.paints or plan.paints)[site]
    kept = stroke.paint is not paint  # a session cannot change the dtypes of ops that it has already run
    because = () if kept else causes(plan.view, plan.strokes, site)
    return SiteRow(
        attribute=graph.sites[site].attribute,
        dtype=_dtype(plan, paint),
        category=plan.view.categories[site].value,
        stage=KEPT if kept else stroke.stage,
        reason=KEPT_REASON if kept else _renamed(reason(plan.view, plan.strokes, site), names),
        because=tuple(graph.sites[cause].op for cause in because),
        because_of=tuple(graph.ops[graph.sites[cause].op].sites.index(cause) for cause in because),
    )


def _renamed(reason: str, names: Mapping[str, str]) -> str:
    return _REGISTERED.sub(lambda found: names.get(found[0], found[0]), reason) if "__" in reason else reason


def _cast_row(plan: Plan, index: int, to: Paint) -> CastRow:
    tensor, shape = plan.graph.tensors[index], plan.graph.shapes[index] if plan.graph.shapes else None
    moved = plan.view.prices.elements(index) * CAST_BYTES if is_known(shape) else None
    return CastRow(tensor.name, plan.graph.sites[tensor.site].op, _dtype(plan, to), moved)


def _dtype(plan: Plan, paint: Paint) -> str:
    return plan.policy.low if paint is Paint.LOW else "float32"
