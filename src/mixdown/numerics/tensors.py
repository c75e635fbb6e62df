"""The tensors that results speak of, and plain-text tables of them: `TensorRow`, `aligned`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from mixdown.rules.layer_names import is_backward
from mixdown.untrusted.escaped import escaped

MOST_ROWS = 40
WIDEST_NAME = 60


@dataclass(frozen=True)
class TensorRow:
    """One tensor: which output of which op it is."""

    op: str
    kind: str
    output: int
    function: str

    @property
    def gradient(self) -> bool:
        """Whether it is a part of the backward pass."""
        return is_backward(self.op)

    @property
    def name(self) -> str:
        """The tensor, as TensorFlow names it."""
        return f"{self.op}:{self.output}"


Row = TypeVar("Row", bound=TensorRow)


def named(name: str, tensors: Sequence[Row]) -> Row:
    """The first tensor of that name, such as "dense/MatMul:0" or "dense/MatMul"."""
    for each in tensors:
        if name in (each.name, each.op):
            return each
    raise KeyError(f"No tensor is named {name!r}; there are {len(tensors)}, see .tensors.")


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """A heading and rows as lines: the first column to the left, numbers to the right, at most `MOST_ROWS` rows."""
    shown = rows[: MOST_ROWS + 1]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(width) if index else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in shown
    ]
    return "\n".join([*lines, f"... and {len(rows) - len(shown)} more"] if len(rows) > len(shown) else lines)


def short(name: str) -> str:
    """A name that fits its column: the end of a long one, which differs more than the beginning."""
    shown = escaped(name)
    return shown if len(shown) <= WIDEST_NAME else f"...{shown[3 - WIDEST_NAME :]}"


def percent(share: float) -> str:
    """A share as a percentage; one that is not quite zero is not rounded to zero."""
    return "0" if share == 0 else f"{share:.2%}" if share >= 0.0001 else "<0.01%"  # noqa: PLR2004 - two digits
