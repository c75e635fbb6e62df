"""What stays full whatever bytes say: weight updates, and tables that are looked up.

Both are stages of the `optimal` strategy only; TensorFlow's own procedure has neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mixdown.core.graph import Graph, Role, walk
from mixdown.core.paint import Canvas, Paint, Stroke, Strokes
from mixdown.core.policy_view import PolicyView
from mixdown.rules import Category


def keep_tables_full(view: PolicyView, canvas: Canvas) -> Strokes:
    """Ops that look up rows of a variable are full: otherwise the whole table would be cast."""
    graph, traits = view.graph, view.traits
    kinds = graph.kinds
    lookups = [kind in traits.lookups for kind in kinds]
    reads = [
        index
        for index, (kind, site) in enumerate(zip(kinds, graph.sites, strict=True))
        if kind in traits.reads or site.role is Role.VARIABLE_READ
    ]
    passing = [
        lookup or kind in traits.moves_nothing or site.role is Role.CONDUIT
        for lookup, kind, site in zip(lookups, kinds, graph.sites, strict=True)
    ]
    onward = [[] if lookup else after for lookup, after in zip(lookups, graph.successors, strict=True)]
    reached = walk(reads, onward, passing)
    return {
        site: Stroke(Paint.FULL, "keep_tables_full", (cause,))
        for site, cause in reached.items()
        if lookups[site] and canvas[site] is None
    }


def keep_updates_full(view: PolicyView, canvas: Canvas) -> Strokes:
    """Arithmetic after the last allow op is full: unscaling, clipping, the optimizer, and the end of a result.

    The derivative of another op still belongs to the backward pass, and clear ops do not compute: both are left free.
    """
    graph = view.graph
    derivatives = set(_having(graph, Role.DERIVATIVE, view.traits.is_derivative))
    written = _upstream(graph, _having(graph, Role.WRITE, view.traits.writes_variable))
    used = _upstream(graph, (site for site in view.sites_of(Category.ALLOW) if canvas[site] is not Paint.FULL))
    return {
        site: Stroke(Paint.FULL, "keep_updates_full", (written[site],) if site in written else ())
        for site in view.sites_of(Category.INFER)
        if canvas[site] is None and site not in used and site not in derivatives
    }


def _having(graph: Graph, role: Role, says: Callable[[str], bool]) -> list[int]:
    """The sites that have a role, or whose kind has it by the traits."""
    kinds = {kind for kind in set(graph.kinds) if says(kind)}
    return [
        index
        for index, (site, kind) in enumerate(zip(graph.sites, graph.kinds, strict=True))
        if site.role is role or kind in kinds
    ]


def _upstream(graph: Graph, sites: Iterable[int]) -> dict[int, int]:
    """Every site that one of these depends on, directly or not, with the site after it."""
    return walk(sites, graph.dependencies, [True] * len(graph.sites))
