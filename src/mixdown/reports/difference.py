"""What changed from one report to another, in lines of text. Start with `difference`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixdown.reports.compare import compare, unpaired
from mixdown.reports.rendering.blocks import moved
from mixdown.untrusted.escaped import escaped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mixdown.reports.compare import Change, GraphComparison
    from mixdown.reports.model import Report


def difference(before: Report, after: Report) -> list[str]:
    """A few lines for every graph, and the graphs that only one report has."""
    lines = [line for graph in compare(before, after) for line in _graph(graph)]
    gone, new = unpaired(before, after)
    lines += [f"- {name}: only in the first report" for name in gone]
    lines += [f"+ {name}: only in the second report" for name in new]
    return [escaped(line) for line in lines] or ["Neither report holds a graph."]


def _graph(graph: GraphComparison) -> Iterator[str]:
    if graph.is_same:
        yield f"{graph.name}: the same, {graph.after.low_ops} of {graph.after.ops} ops low"
        return
    old, new = graph.before, graph.after
    yield (
        f"{graph.name}: {old.low_ops} of {old.ops} ops low before, {new.low_ops} of {new.ops} after; "
        f"{old.casts} casts ({moved(old)}) before, {new.casts} ({moved(new)}) after"
    )
    yield from map(_change, graph.changes)
    yield from (f"  - op {label}" for label in graph.ops_removed)
    yield from (f"  + op {label}" for label in graph.ops_added)
    yield from (f"  - cast of {cast.tensor} to {cast.to}" for cast in graph.casts_removed)
    yield from (f"  + cast of {cast.tensor} to {cast.to}" for cast in graph.casts_added)


def _change(change: Change) -> str:
    label = f"{change.op} in {change.function}" if change.function else change.op
    return (
        f"  {label} ({change.kind}, {change.attribute}): {change.dtype_before} ({change.reason_before}) -> "
        f"{change.dtype_after} ({change.reason_after})"
    )
