"""Tables in plain text: the numbers of `statistics` and the errors of `compare`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixdown.numerics.formats import FORMATS
from mixdown.untrusted.escaped import escaped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mixdown.numerics.range_statistics import Measured, Statistics

MOST_ROWS = 40
WIDEST_NAME = 60


def statistics_table(statistics: Statistics) -> str:
    """One line a tensor: its range, and what each format would lose of it."""
    head = ["tensor", "elements", "max abs", "min nonzero"]
    head += [f"{format_name} {loss}" for format_name in FORMATS for loss in ("flushed", "subnormal", "overflowed")]
    rows = [head, *(_statistics_row(each) for each in statistics.tensors[:MOST_ROWS])]
    steps = f"{statistics.steps} step" if statistics.steps == 1 else f"{statistics.steps} steps"
    lines = [f"{len(statistics.tensors)} tensors that become {escaped(statistics.low)}, over {steps}:", aligned(rows)]
    lines += more(len(statistics.tensors))
    lines += [str(statistics.scale)] if statistics.scale else []
    return "\n".join(lines)


def _statistics_row(each: Measured) -> list[str]:
    tally = each.tally
    smallest = "-" if tally.min_nonzero is None else f"{tally.min_nonzero:.3g}"
    row = [short(each.name), f"{tally.elements}", f"{tally.max_abs:.3g}", smallest]
    for low in FORMATS:
        losses = tally.losses(low)
        row += [percent(tally.share(n)) for n in (losses.flushed, losses.subnormal, losses.overflowed)]
    return row


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows as lines, the first column to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if index else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def more(count: int) -> list[str]:
    """The line that says how many rows were left out."""
    return [f"... and {count - MOST_ROWS} more"] if count > MOST_ROWS else []


def short(name: str) -> str:
    """A name that fits the column: its end, which tells more than its beginning."""
    shown = escaped(name)
    return shown if len(shown) <= WIDEST_NAME else f"...{shown[3 - WIDEST_NAME :]}"


def percent(share: float) -> str:
    """A share for people; a share that is not quite zero does not look like zero."""
    return "0" if share == 0 else f"{share:.2%}" if share >= 0.0001 else "<0.01%"  # noqa: PLR2004 - two digits
