"""A plan in a few lines of plain text."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from mixdown.core import Paint
from mixdown.core.why import reason

if TYPE_CHECKING:
    from mixdown.core import Plan

MOST_REASONS = 6
HEADLINES = {
    "taint": "it follows a denied op",
    "match_lists": "it shares a tensor list with an op that stays in float32",
    "match_loops": "it carries the same value as a site that stays in float32",
}
"""Stage -> the reason in short, for strokes that have another site as their cause."""


def summary(plan: Plan) -> str:
    """How much became low, which kinds, what that takes in casts, and why the rest did not."""
    graph, low = plan.graph, plan.policy.low
    lowered = [op for op in graph.ops if any(plan.paints[site] is Paint.LOW for site in op.sites)]
    directions = Counter(cast.to for cast in plan.casts)
    casts = f"{len(plan.casts)} casts ({directions[Paint.LOW]} to {low}, {directions[Paint.FULL]} back)"
    lines = [
        f"{len(lowered)} of {len(graph.ops)} float32 ops run in {low}, with {casts}.",
        _counted(f"in {low}", Counter(op.kind for op in lowered)),
        "The others stay in float32, because:",
        *(f"  {count:6} {why}" for why, count in _reasons(plan).most_common(MOST_REASONS)),
    ]
    return "\n".join(lines)


def _counted(what: str, kinds: Counter[str]) -> str:
    named = [f"{count} {kind}" for kind, count in sorted(kinds.items(), key=lambda item: (-item[1], item[0]))]
    more = f" and {len(named) - MOST_REASONS} more kinds" if len(named) > MOST_REASONS else ""
    return f"{what}: {', '.join(named[:MOST_REASONS])}{more}"


def _reasons(plan: Plan) -> Counter[str]:
    """How many sites each reason keeps full, whatever op is the cause."""
    return Counter(
        HEADLINES[strokes[-1].stage] if strokes[-1].because else reason(plan.scene, plan.strokes, site)
        for site, strokes in enumerate(plan.strokes)
        if plan.paints[site] is Paint.FULL
    )
