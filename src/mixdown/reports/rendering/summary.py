"""One graph in a few lines: how much became low, which kinds, what that takes in casts, and why the rest did not."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mixdown.reports.model import GraphReport, SiteRow

MOST_REASONS = 6
HEADLINES = {
    "taint": "it follows a denied op",
    "match_lists": "it shares a tensor list with an op that stays in float32",
    "match_loops": "it carries the same value as a site that stays in float32",
}
"""Stage -> the reason in short, for decisions that have another site as their cause."""

NAMES = re.compile("`[^`]*`(?: and `[^`]*`)*")


def summary(graph: GraphReport) -> list[str]:
    """How much became low, which kinds, what that takes in casts, and why the rest did not."""
    low, lowered = graph.low, graph.low_ops
    down = sum(cast.to == low for cast in graph.casts)
    casts = f"{len(graph.casts)} casts ({down} to {low}, {len(graph.casts) - down} back)"
    return [
        f"{len(lowered)} of {len(graph.ops)} float32 ops run in {low}, with {casts}.",
        _counted(f"in {low}", Counter(op.kind for op in lowered)),
        "The others stay in float32, because:",
        *(f"  {count:6} {why}" for why, count in _reasons(graph).most_common(MOST_REASONS)),
    ]


def _counted(what: str, kinds: Counter[str]) -> str:
    named = [f"{count} {kind}" for kind, count in sorted(kinds.items(), key=lambda item: (-item[1], item[0]))]
    more = f" and {len(named) - MOST_REASONS} more kinds" if len(named) > MOST_REASONS else ""
    return f"{what}: {', '.join(named[:MOST_REASONS])}{more}"


def _reasons(graph: GraphReport) -> Counter[str]:
    """How many sites each reason keeps full, whatever op is the cause."""
    return Counter(_headline(site) for op in graph.ops for site in op.sites if site.dtype != graph.low)


def _headline(site: SiteRow) -> str:
    return (HEADLINES.get(site.stage) if site.because else None) or NAMES.sub("...", site.reason)
