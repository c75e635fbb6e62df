"""Calling a function must not round values: finds 16-bit conduits that would. Start with `rounding_conduits`.

A conduit carries a value into or out of a function and computes nothing. If it is low, its readers get a rounded value.
That is no loss if a low op made the value, or if only low ops read it. The cut counts bytes and does not know this.
"""

from __future__ import annotations

from collections.abc import Sequence

from mixdown.core.graph import Agreement, Role, Tie
from mixdown.core.paint import Paint
from mixdown.core.painting.stages import is_unread
from mixdown.core.policy_view import PolicyView


def rounding_conduits(view: PolicyView, paints: Sequence[Paint | None]) -> set[int]:
    """The sites of low conduits that round a full value which a full op reads."""
    ties = [tie for tie in view.ties(Agreement.UNANIMOUS) if _is_low_conduit(view, paints, tie)]
    doubtful = {site for tie in ties for site in tie.sites}
    low = [paint is Paint.LOW and site not in doubtful for site, paint in enumerate(paints)]
    while ties:
        excused = [tie for tie in ties if _loses_nothing(view, low, tie)]
        if not excused:
            break
        for site in (site for tie in excused for site in tie.sites):
            low[site] = True
        ties = [tie for tie in ties if not low[tie.sites[0]]]
    return {site for tie in ties for site in (*tie.sites, *tie.followers)}


def _is_low_conduit(view: PolicyView, paints: Sequence[Paint | None], tie: Tie) -> bool:
    first = tie.sites[0]
    return paints[first] is Paint.LOW and view.graph.sites[first].role is Role.CONDUIT


def _loses_nothing(view: PolicyView, low: Sequence[bool], tie: Tie) -> bool:
    """Whether no full value that a tie takes in gets to a full reader.

    What comes out of a loop is what its body made: that the loop takes something in does not count there.
    """
    graph, own = view.graph, {*tie.sites, *tie.followers}
    full = {site for site in tie.sites if any(not low[s] for s in graph.predecessors[site] if s not in own)}
    reached = {site for site in full if own.isdisjoint(graph.predecessors[site])}
    queue = sorted(full)
    for here in queue:
        onward = own.intersection(graph.successors[here]) - reached
        reached |= onward
        queue.extend(sorted(onward))
    readers = (s for site in reached for s in graph.successors[site] if s not in own)
    return all(low[site] or is_unread(view, site) for site in readers)
