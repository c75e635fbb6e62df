"""The chain of causes behind the dtype of an op, from the rows of a report: `why`. `Plan.why` does it from a plan."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from mixdown.untrusted.escaped import escaped

if TYPE_CHECKING:
    from mixdown.reports.model import GraphReport, OpRow, ReportData

SiteIndex = tuple[int, int]
"""The index of an op, and which of its sites."""


def why(report: ReportData, name: str) -> str:
    """The decisions on an op and what caused them, in every graph that has it."""
    found = [(graph, index) for graph in report.graphs for index, op in enumerate(graph.ops) if name in _names(op)]
    if not found:
        raise KeyError(f"No op named {name!r} has a float32 port in this report.{_suggestion(report, name)}")
    several = len({id(graph) for graph, _ in found}) > 1
    lines = [
        line for graph, op in found for line in ((f"In {graph.name}:",) if several else ()) + tuple(chain(graph, op))
    ]
    return "\n".join(map(escaped, lines))


def chain(graph: GraphReport, index: int) -> list[str]:
    """One line a decision, from effect to cause, and the line of the program that made the op."""
    op = graph.ops[index]
    lines = [line for position in range(len(op.sites)) for line in _site_chain(graph, (index, position))]
    return [*lines, f"  It was made at {op.source}."] if op.source else lines


def _site_chain(graph: GraphReport, start: SiteIndex) -> list[str]:
    queue, seen, lines = [start], {start}, []
    for index, position in queue:
        op, site = graph.ops[index], graph.ops[index].sites[position]
        indent = "" if (index, position) == start else "  "
        lines.append(f"{indent}{_label(op, position)} ({op.kind}) is {site.dtype}: {site.reason}")
        fresh = [cause for cause in zip(site.because, site.because_of, strict=True) if cause not in seen]
        queue.extend(dict.fromkeys(fresh))
        seen.update(fresh)
    return lines


def _names(op: OpRow) -> tuple[str, str]:
    return op.name, f"{op.name} in {op.function}"


def _label(op: OpRow, position: int) -> str:
    label = f"{op.name} in {op.function}" if op.function else op.name
    return f"{label}.{op.sites[position].attribute}" if len(op.sites) > 1 else label


def _suggestion(report: ReportData, name: str) -> str:
    """The ops whose names end with the name, or else those with similar names."""
    names = {op.name for graph in report.graphs for op in graph.ops}
    close = sorted(known for known in names if known.endswith(f"/{name}")) or get_close_matches(name, names, n=3)
    return f" Did you mean {' or '.join(map(repr, close[:3]))}?" if close else ""
