"""A report, or what changed between two, as plain text. Start with `show`, `text` or `difference`."""

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TextIO

from mixdown.reports.compare import Change, GraphComparison, compare, unpaired
from mixdown.reports.model import ReportData
from mixdown.reports.rendering.blocks import Table, blocks, moved
from mixdown.untrusted.escaped import escaped


def show(report: ReportData, file: TextIO | None = None) -> None:
    """Print a report: with rich on a terminal, if that is installed, and as plain text elsewhere."""
    out = file or sys.stdout
    if out.isatty() and find_spec("rich"):
        from mixdown.reports.rendering.rich_text import print_rich  # noqa: PLC0415 - rich is optional

        print_rich(report, out)
    else:
        out.write(encodable(text(report), out) + "\n")


def encodable(words: str, file: TextIO) -> str:
    """The words, with every character that the file cannot encode replaced by its escape sequence."""
    encoding = getattr(file, "encoding", None) or "utf-8"
    return words.encode(encoding, "backslashreplace").decode(encoding)


def text(report: ReportData) -> str:
    """The report as plain text; tables have aligned columns."""
    return "\n".join(
        line for block in blocks(report) for line in (_table(block) if isinstance(block, Table) else [escaped(block)])
    )


def _table(table: Table) -> list[str]:
    rows = [tuple(map(escaped, row)) for row in (table.headings, *table.rows)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return ["", escaped(table.title), *(f"  {line}" for line in lines)]


def difference(before: ReportData, after: ReportData) -> list[str]:
    """What changed from one report to another: a few lines for every graph, and the graphs that only one has."""
    lines = [line for graph in compare(before, after) for line in _changes(graph)]
    gone, new = unpaired(before, after)
    lines += [f"- {name}: only in the first report" for name in gone]
    lines += [f"+ {name}: only in the second report" for name in new]
    return [escaped(line) for line in lines] or ["Neither report holds a graph."]


def _changes(graph: GraphComparison) -> Iterator[str]:
    if graph.is_same:
        yield f"{graph.name}: the same, {graph.after.low_ops} of {graph.after.ops} ops in 16 bits"
        return
    old, new = graph.before, graph.after
    yield (
        f"{graph.name}: {old.low_ops} of {old.ops} ops in 16 bits before, {new.low_ops} of {new.ops} after; "
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
