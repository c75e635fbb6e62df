"""A report as plain text: the same on a terminal, in a pipe and in a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixdown.reports.rendering.blocks import Table, blocks
from mixdown.untrusted.escaped import escaped

if TYPE_CHECKING:
    from mixdown.reports.model import Report


def text(report: Report) -> str:
    """All of it; tables have aligned columns."""
    return "\n".join(
        line for block in blocks(report) for line in (_table(block) if isinstance(block, Table) else [escaped(block)])
    )


def _table(table: Table) -> list[str]:
    rows = [tuple(map(escaped, row)) for row in (table.headings, *table.rows)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return ["", escaped(table.title), *(f"  {line}" for line in lines)]
