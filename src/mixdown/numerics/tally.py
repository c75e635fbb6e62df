"""The numbers of one tensor, counted: how large, how many of them zero, and how many a 16-bit format would lose.

Start with `Tally`. `TensorRow` is a tensor that results speak of, and `aligned` a plain-text table of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from mixdown.errors import MisfitError
from mixdown.rules.formats import BIAS, BOUNDARIES, EXPONENTS, FORMATS, INF, NAN, NONZERO, Format, value_of
from mixdown.rules.layer_names import is_backward
from mixdown.untrusted.escaped import escaped
from mixdown.untrusted.typed import from_json_data

MOST_ROWS = 40
WIDEST_NAME = 60

EXPONENT_KEYS = frozenset(map(str, range(EXPONENTS)))
"""The exponents of a float32, as JSON writes them."""

LOSSES = ("flushed", "subnormal", "overflowed")
"""The fields of `Losses`."""


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


@dataclass(frozen=True)
class Losses:
    """How many numbers a format would change for the worse, of finite, non-zero ones."""

    flushed: int  # become zero
    subnormal: int  # keep only some of their digits
    overflowed: int  # become Inf


@dataclass(frozen=True)
class Tally:
    """Counts of the numbers of one tensor, over one or many executions."""

    elements: int
    histogram: tuple[int, ...]
    """How many have each float32 exponent, once rounded to float16 if that can hold them. The first entry counts zeros
    and float32 subnormals, the last Inf and NaN."""
    at_least: tuple[int, ...]  # how many reach each of BOUNDARIES
    largest_bits: int  # of the finite ones, 0 if there is none but zero
    smallest_bits: int  # of the finite, non-zero ones, INF if there is none

    @classmethod
    def from_vector(cls, vector: Sequence[int]) -> Self:
        """From what a probe returns: histogram, counts at the boundaries, largest bits, smallest bits above zero."""
        histogram = tuple(vector[:EXPONENTS])
        *counts, largest, smallest = vector[EXPONENTS:]
        return cls(sum(histogram), histogram, tuple(counts), max(largest, 0), min(smallest or INF, INF))

    def __add__(self, other: Self) -> Self:
        return type(self)(
            self.elements + other.elements,
            tuple(map(sum, zip(self.histogram, other.histogram, strict=True))),
            tuple(map(sum, zip(self.at_least, other.at_least, strict=True))),
            max(self.largest_bits, other.largest_bits),
            min(self.smallest_bits, other.smallest_bits),
        )

    def reaching(self, boundary: int) -> int:
        """How many numbers are at least as large as a boundary."""
        return self.at_least[BOUNDARIES.index(boundary)]

    @property
    def zeros(self) -> int:
        """How many are zero."""
        return self.elements - self.reaching(NONZERO)

    @property
    def infs(self) -> int:
        """How many are Inf."""
        return self.reaching(INF) - self.reaching(NAN)

    @property
    def nans(self) -> int:
        """How many are NaN."""
        return self.reaching(NAN)

    @property
    def max_abs(self) -> float:
        """The largest finite magnitude."""
        return value_of(self.largest_bits)

    @property
    def min_nonzero(self) -> float | None:
        """The smallest magnitude that is not zero, None if there is none."""
        return value_of(self.smallest_bits) if self.smallest_bits < INF else None

    def losses(self, low: Format | str) -> Losses:
        """How many of these numbers a format would change for the worse."""
        low = FORMATS[low] if isinstance(low, str) else low
        kept, normal = self.reaching(low.kept), self.reaching(low.normal)
        return Losses(self.reaching(NONZERO) - kept, kept - normal, self.reaching(low.too_large) - self.reaching(INF))

    def share(self, count: int) -> float:
        """A count as a share of all numbers."""
        return count / self.elements if self.elements else 0.0

    def below(self, exponent: int) -> int:
        """How many non-zero normal numbers are smaller than two to the power of `exponent`."""
        return sum(self.histogram[1 : max(1, exponent + BIAS)])

    def cells(self) -> list[str]:
        """The row of a table: elements, range, and the shares that each format would lose."""
        smallest = "-" if self.min_nonzero is None else f"{self.min_nonzero:.3g}"
        losses = [percent(self.share(count)) for low in FORMATS for count in vars(self.losses(low)).values()]
        return [f"{self.elements}", f"{self.max_abs:.3g}", smallest, *losses]

    @property
    def exponents(self) -> dict[int, int]:
        """How many numbers there are per power of two, for those that occur; zeros, Inf and NaN left out."""
        return {at - BIAS: n for at, n in enumerate(self.histogram) if n and 0 < at < EXPONENTS - 1}

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON; the histogram without its zeros."""
        histogram = {str(at): n for at, n in enumerate(self.histogram) if n}
        return {**vars(self), "histogram": histogram, "at_least": list(self.at_least)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """What `to_dict` wrote; a `MisfitError` if it is something else."""
        stored = from_json_data(_StoredTally, data)
        for holds, problem in _conditions(stored):
            if not holds:
                raise MisfitError("", problem)
        histogram = tuple(stored.histogram.get(str(at), 0) for at in range(EXPONENTS))
        return cls(stored.elements, histogram, stored.at_least, stored.largest_bits, stored.smallest_bits)


@dataclass(frozen=True)
class _StoredTally:
    """A tally as JSON has it."""

    elements: int
    histogram: dict[str, int]
    at_least: tuple[int, ...]
    largest_bits: int
    smallest_bits: int


def _conditions(stored: _StoredTally) -> Iterator[tuple[bool, str]]:
    """What holds for every tally that was counted, each with the problem of one for which it does not."""
    known = stored.histogram.keys() <= EXPONENT_KEYS and len(stored.at_least) == len(BOUNDARIES)
    yield known, "counts numbers that do not exist"
    counts = [*stored.histogram.values(), *stored.at_least]
    sums_up = sum(stored.histogram.values()) == stored.elements
    yield sums_up and 0 <= min(counts) <= max(counts) <= stored.elements, "counts more or fewer numbers than there are"
    largest, smallest = stored.largest_bits, stored.smallest_bits
    ordered = 0 < smallest <= largest < INF and stored.at_least[BOUNDARIES.index(NONZERO)] > 0
    yield ordered or (smallest, largest) == (INF, 0), "has a largest or smallest number that does not exist"


@dataclass(frozen=True)
class MeasuredTensor(TensorRow):
    """One tensor and its numbers."""

    tally: Tally

    def losses(self, low: str) -> Losses:
        """How many of its numbers "float16" or "bfloat16" would change for the worse."""
        return self.tally.losses(low)
