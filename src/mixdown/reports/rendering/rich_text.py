"""Prints a report with the tables and colours of rich. The only module that needs it: `pip install 'mixdown[rich]'`."""

from typing import TextIO

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from mixdown.reports.model import ReportData
from mixdown.reports.rendering.blocks import Table, blocks
from mixdown.untrusted.escaped import escaped

STYLES = {"Note:": "cyan", "Warning:": "yellow", "left": "dim", "rewritten": "green"}
"""First word of a line or cell -> its style."""


def print_rich(report: ReportData, file: TextIO) -> None:
    """Print a report; every name is a `Text` of its own, so that rich does not read it as markup."""
    console = Console(file=file, highlight=False)
    first, *rest = blocks(report)
    console.print(Text(escaped(str(first)), style="bold"))
    for block in rest:
        console.print(_table(block) if isinstance(block, Table) else _styled(block))


def _table(table: Table) -> RichTable:
    out = RichTable(title=Text(escaped(table.title)), title_justify="left")
    for heading in table.headings:
        out.add_column(heading, overflow="fold")
    for row in table.rows:
        out.add_row(*map(_styled, row))
    return out


def _styled(cell: str) -> Text:
    return Text(escaped(cell), style=STYLES.get(cell.partition(" ")[0], ""))
