"""The loss scale that measured gradients need, fixed or dynamic: `advise`.

A scale is a power of two: multiplying with it changes exponents only, so that no digit is lost.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import floor, frexp, log2

from mixdown.numerics.tally import Tally
from mixdown.rules.formats import FLOAT16

HEADROOM = 3
"""How many powers of two a fixed scale keeps between the largest gradient seen and the largest float16."""

CEILING = 2.0**40
"""The largest scale that is advised: the scaled loss itself must stay far below the largest float32."""

DYNAMIC_START = 2.0**15


@dataclass(frozen=True)
class ScaleAdvice:
    """The loss scale that gradients need.

    Attributes:
        fixed: the fixed scale to use.
        dynamic: where a dynamic scale settles: the largest with which these gradients do not overflow.
        start_skips: how many steps a dynamic scale that starts at 2**15 skips before it gets there.
        flushed: the share of non-zero gradient numbers that float16 turns into zero without any scale.
        flushed_then: the same with the fixed scale.
    """

    fixed: float
    dynamic: float
    start_skips: int
    flushed: float
    flushed_then: float

    def __str__(self) -> str:
        return (
            f"Fixed loss scale: {self.fixed:g} ({self.flushed:.2%} of gradients vanish without, "
            f"{self.flushed_then:.2%} with it). A dynamic one settles at {self.dynamic:g}, "
            f"after {self.start_skips} skipped steps if it starts at 32768."
        )


def advise(tallies: Iterable[Tally], loss_scale: float = 1.0) -> ScaleAdvice | None:
    """The loss scale for gradients that were measured under `loss_scale`; None if all of them are zero.

    The fixed scale is the smallest that makes every gradient a normal float16, or less if the largest gradient would
    come too close to overflow.
    """
    seen = [tally for tally in tallies if tally.min_nonzero is not None]
    if not seen:
        return None
    largest = max(tally.max_abs for tally in seen) / loss_scale
    smallest = min(tally.min_nonzero or largest for tally in seen) / loss_scale
    largest_power = 2.0 ** (frexp(FLOAT16.largest / largest)[1] - 1)  # that does not overflow
    most = min(largest_power, CEILING)
    enough = 2.0 ** -floor(log2(smallest / FLOAT16.smallest_normal))
    fixed = max(1.0, min(enough, most / 2**HEADROOM))
    return ScaleAdvice(
        fixed,
        max(most, 1.0),
        max(0, round(log2(DYNAMIC_START / most))),
        _flushed(seen, 1.0 / loss_scale),
        _flushed(seen, fixed / loss_scale),
    )


def _flushed(tallies: list[Tally], factor: float) -> float:
    """The share of non-zero numbers that become zero in float16 once multiplied by a factor."""
    limit = -25 - floor(log2(factor))
    lost = sum(tally.below(limit) for tally in tallies)
    return lost / sum(tally.elements - tally.zeros for tally in tallies)
