"""What stays full so that training stays sound, whatever it costs: weight updates, and tables that are looked up.

Both are stages of the `optimal` strategy only; TensorFlow's own procedure has neither.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from mixdown.core.graph import Role
from mixdown.core.paint import Canvas, Paint, Stroke, Strokes
from mixdown.core.stages import walk
from mixdown.rules import Category
from mixdown.rules.tensorflow_traits import LOOKUPS, MOVES_NOTHING, READS, is_gradient, writes_variable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mixdown.core.graph import Graph
    from mixdown.core.policy_view import Scene


def spare_tables(scene: Scene, canvas: Canvas) -> Strokes:
    """What looks rows up in a variable is full: it would take a cast of the whole table."""
    graph = scene.graph
    kinds = graph.kinds
    lookups = [kind in LOOKUPS for kind in kinds]
    reads = [
        index
        for index, (kind, site) in enumerate(zip(kinds, graph.sites, strict=True))
        if kind in READS or site.role is Role.VARIABLE_READ
    ]
    passing = [
        lookup or kind in MOVES_NOTHING or site.role is Role.CONDUIT
        for lookup, kind, site in zip(lookups, kinds, graph.sites, strict=True)
    ]
    onward = [[] if lookup else after for lookup, after in zip(lookups, graph.successors, strict=True)]
    reached = walk(reads, onward, passing)
    return {
        site: Stroke(Paint.FULL, "spare_tables", (cause,))
        for site, cause in reached.items()
        if lookups[site] and canvas[site] is None
    }


def spare_updates(scene: Scene, canvas: Canvas) -> Strokes:
    """Arithmetic after the last allow op is full: unscaling, clipping, the optimizer, the last touch to a result.

    A true derivative such as BiasAddGrad still belongs to the backward pass; data movement does not compute.
    """
    graph = scene.graph
    written = _upstream(graph, (site for site, kind in enumerate(graph.kinds) if _writes(kind)))
    used = _upstream(graph, (site for site in scene.sites_of(Category.ALLOW) if canvas[site] is not Paint.FULL))
    return {
        site: Stroke(Paint.FULL, "spare_updates", (written[site],) if site in written else ())
        for site in scene.sites_of(Category.INFER)
        if canvas[site] is None and site not in used and not _is_gradient(graph.kinds[site])
    }


def _upstream(graph: Graph, sites: Iterable[int]) -> dict[int, int]:
    """Every site whose op has a part in what ends up at one of these, with the site after it."""
    return walk(sites, graph.dependencies, [True] * len(graph.sites))


_writes, _is_gradient = cache(writes_variable), cache(is_gradient)
