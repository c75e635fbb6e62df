"""Why parts of a graph stay in float32, in short, what a user can change first. Start with `obstacles`."""

import re
from functools import cache
from typing import NamedTuple

from mixdown.reports.model import GraphReport

HEADLINES = {
    "match_lists": "it shares a tensor list with an op that stays in float32",
    "match_loops": "it carries the same value as a site that stays in float32",
    "cut": "16 bits would move no less here, casts included",
}
"""Stage -> the reason in short, for decisions whose reasons differ in names or amounts only."""

CHANGEABLE = ("cut", "alone", "strip")
"""Stages that decide by shapes and kernels, which a user can change, as well as by lists and rules."""

_OP_NAMES = re.compile("`[^`]*`(?: and `[^`]*`)*")


class Obstacle(NamedTuple):
    """One reason, how many sites it keeps in float32, and how many bytes the ops move that have one."""

    reason: str
    sites: int
    bytes: int
    changeable: bool  # by a policy, or by other shapes


def obstacles(graph: GraphReport) -> list[Obstacle]:
    """The reasons for which sites stay in float32: those that a user can change first, then by bytes."""
    short = _Short(graph)
    found: dict[str, Obstacle] = {}
    for index, op in enumerate(graph.ops):
        for position, site in enumerate(op.sites):
            if site.dtype == graph.low:
                continue
            reason, changeable = short.of(index, position)
            before = found.get(reason, Obstacle(reason, 0, 0, changeable))
            moved = before.bytes + op.bytes // len(op.sites)
            found[reason] = Obstacle(reason, before.sites + 1, moved, before.changeable or changeable)
    return sorted(found.values(), key=lambda each: (not each.changeable, -each.bytes, -each.sites, each.reason))


class _Short:
    """The reasons of one graph in short."""

    def __init__(self, graph: GraphReport) -> None:
        self._graph, self._denied = graph, cache(self._root)

    def of(self, op: int, position: int) -> tuple[str, bool]:
        """The reason of a site, and whether a user can change it."""
        site = self._graph.ops[op].sites[position]
        if site.stage == "taint" and site.because:
            return f"it follows a denied op ({self._denied((op, position))})", True
        plain = (HEADLINES.get(site.stage) if site.because or site.stage == "cut" else None) or _OP_NAMES.sub(
            "...", site.reason
        )
        ruled = site.category == "deny" or site.reason.startswith("a rule of the policy")
        return plain, ruled or site.stage in CHANGEABLE

    def _root(self, start: tuple[int, int]) -> str:
        """The kind of the op at which the chain of causes of a site begins."""
        here, seen = start, {start}
        while True:
            op = self._graph.ops[here[0]]
            site = op.sites[here[1]]
            causes = [each for each in zip(site.because, site.because_of, strict=True) if each not in seen]
            if not causes:
                return op.kind
            here = causes[0]
            seen.add(here)
