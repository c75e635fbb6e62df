"""A report as lines and tables, before anything decides how they look. Start with `blocks`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from mixdown.reports.rendering.summary import summary

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mixdown.reports.model import GraphReport, Report, ScalerReport
    from mixdown.reports.totals import Totals

MOST_ROWS = 10
"""Of tables whose rows matter less and less. The page and the JSON have all of them."""

UNITS = ("B", "KB", "MB", "GB", "TB")


class Table(NamedTuple):
    """Rows under headings."""

    title: str
    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


Block = str | Table


def blocks(report: Report) -> Iterator[Block]:
    """All that a report says in text."""
    yield report.title
    if report.versions:
        yield ", ".join(f"{name} {version}" for name, version in report.versions.items())
    yield from (f"Note: {note}" for note in report.notes)
    yield from (f"Warning: {warning}" for warning in report.warnings)
    yield from _one_graph(report.graphs[0]) if len(report.graphs) == 1 else _many_graphs(report)
    yield from _advice(report)
    for scaler in report.scalers:
        yield from _scaler(scaler)


def size(count: int) -> str:
    """A number of bytes, for people."""
    value, unit = float(count), 0
    while value >= 1000 and unit < len(UNITS) - 1:  # noqa: PLR2004 - the step from unit to unit
        value, unit = value / 1000, unit + 1
    return f"{value:.{int(unit > 0)}f} {UNITS[unit]}"


def moved(totals: Totals) -> str:
    """What casts move, and of how many that is not known."""
    unknown = f"{totals.unsized_casts} of unknown size"
    if totals.casts and totals.casts == totals.unsized_casts:
        return unknown
    return size(totals.bytes) + (f", {unknown}" if totals.unsized_casts else "")


def _one_graph(graph: GraphReport) -> Iterator[Block]:
    if not graph.rewritten:
        yield f"This {graph.kind} is left as it is: {graph.reason}."
    if not graph.ops:
        return
    yield from summary(graph)
    yield f"Per run the casts read and write {moved(graph.totals)}."
    yield _totals_table("By layer", "layer", graph.by_layer())
    yield _totals_table("By kind", "kind", graph.by_kind())
    if graph.casts:
        largest = sorted(graph.casts, key=lambda cast: (-(cast.bytes or 0), cast.tensor))
        rows = [(each.tensor, each.to, "unknown" if each.bytes is None else size(each.bytes)) for each in largest]
        yield Table(_title("Casts", len(rows)), ("tensor", "to", "moves"), rows[:MOST_ROWS])


def _totals_table(title: str, what: str, parts: dict[str, Totals]) -> Table:
    rows = [
        (name or "(in no layer)", f"{each.low_ops} of {each.ops}", str(each.casts), moved(each) if each.casts else "")
        for name, each in parts.items()
    ]
    return Table(_title(title, len(rows)), (what, "low ops", "casts", "moves"), rows[:MOST_ROWS])


def _title(title: str, rows: int) -> str:
    return f"{title}, the first {MOST_ROWS} of {rows}" if rows > MOST_ROWS else title


def _many_graphs(report: Report) -> Iterator[Block]:
    if not report.graphs:
        yield "No function and no session was rewritten or looked at."
        return
    kinds = Counter(graph.kind for graph in report.graphs)
    rewritten = sum(graph.rewritten for graph in report.graphs)
    named = " and ".join(f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in sorted(kinds.items()))
    yield f"{named}: {rewritten} rewritten, {len(report.graphs) - rewritten} left alone."
    yield Table(
        "Graphs", ("name", "kind", "low ops", "casts", "moves", "what happened"), list(map(_graph_row, report.graphs))
    )


def _graph_row(graph: GraphReport) -> tuple[str, ...]:
    totals = graph.totals
    happened = f"rewritten to {graph.low}" if graph.rewritten else f"left alone: {graph.reason}"
    casts = moved(totals) if totals.casts else ""
    return graph.name, graph.kind, f"{totals.low_ops} of {totals.ops}", str(totals.casts), casts, happened


def _advice(report: Report) -> Iterator[Block]:
    found = dict.fromkeys(advice for graph in report.graphs for advice in graph.advice)
    if found:
        rows = [(each.layer, each.dimension, str(each.size), str(each.better)) for each in found]
        title = "Tensor Cores want powers of two below 256, and multiples of 8 above"
        yield Table(_title(title, len(rows)), ("layer", "dimension", "size", "better"), rows[:MOST_ROWS])


def _scaler(scaler: ScalerReport) -> Iterator[Block]:
    yield (
        f"Loss scale of {scaler.name}: {scaler.loss_scale:g} after {scaler.steps} steps, "
        f"of which {scaler.skipped_steps} were skipped."
    )
    if scaler.timeline:
        yield "It was " + ", ".join(f"{scale:g} from step {step}" for step, scale in scaler.timeline[-MOST_ROWS:]) + "."
    if scaler.skips:
        rows = [
            (str(skip.step), ", ".join(f"{name} ({held})" for name, held in skip.variables) or "not recorded")
            for skip in scaler.skips[-MOST_ROWS:]
        ]
        more = f", the last {len(rows)} of {scaler.skipped_steps}" if scaler.skipped_steps > len(rows) else ""
        yield Table(f"Skipped steps{more}", ("step", "variables with gradients that are not finite"), rows)
