"""The range rules of calibration: what the numbers that an op reads and makes say about its precision."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from mixdown.numerics.formats import FORMATS
from mixdown.untrusted.escaped import escaped

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mixdown.numerics.tally import Tally


class Verdict(Enum):
    """What becomes of an op."""

    KEEP = "keep"  # its range leaves that of the low dtype: it stays full
    PROMOTE = "promote"  # denied out of caution, but its range lies well within: it may be low


@dataclass(frozen=True)
class Observed:
    """A tensor that an op reads or makes, and the factor by which training will scale it."""

    name: str
    tally: Tally
    factor: float = 1.0

    @property
    def largest(self) -> float:
        """The largest magnitude it will have."""
        return self.tally.max_abs * self.factor


@dataclass(frozen=True)
class Ruling:
    """A verdict on one op, and the number behind it."""

    op: str
    kind: str
    verdict: Verdict
    reason: str

    def __str__(self) -> str:
        return escaped(f"{self.verdict.value:8}{self.op} ({self.kind}): {self.reason}")


def obstacle(tensors: Iterable[Observed], low: str, headroom: int) -> str:
    """Why numbers do not fit a format, "" if they do.

    They must stay `headroom` powers of two below its largest number, and not all of them below its smallest normal one.
    """
    held = FORMATS[low]
    for each in tensors:
        if each.tally.infs or each.tally.nans:
            return f"{each.name} is not finite even in float32"
        if each.largest * 2.0**headroom > held.largest:
            return f"{each.name} reaches {each.largest:.3g}, and {low} ends at {held.largest:.3g}"
        if 0 < each.largest < held.smallest_normal:
            return (
                f"{each.name} never exceeds {each.largest:.3g}, and {low} loses digits below {held.smallest_normal:.3g}"
            )
    return ""


def is_safe(tensors: Iterable[Observed], low: str, headroom: int) -> bool:
    """Whether numbers lie well within a format: they fit, and none of them becomes zero."""
    tensors = list(tensors)
    flushed = any(each.tally.losses(low).flushed for each in tensors)
    return bool(tensors) and not flushed and not obstacle(tensors, low, headroom)
