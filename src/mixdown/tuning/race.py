"""Which of several candidates is fastest, as a value that grows call by call: `Race`. Pure and deterministic.

Candidate 0 is the one that others must beat. The first call of each, in which it is compiled, does not count. Then all
run in turn, in rounds; the calls of a round are compared with each other, and medians of their ratios decide. After
every heat, a few rounds, the slower half leaves, and whoever cannot be faster than the best, or than candidate 0. The
best is kept if it wins once more, in rounds of these two alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import comb
from random import Random
from statistics import median
from typing import NamedTuple, Self

ROUNDS = 6
"""Of a heat. Fewer pairs say nothing with any certainty: the median lies between all of six but once in 32 times."""

LEAST_GAIN = 0.02
"""A candidate that cannot save this part of the time is not worth rounding for."""

HOPELESS = 1.5
"""A candidate that takes this much longer than candidate 0 in two rounds is not looked at further."""

CLOSE = 0.01
"""Two candidates are equally good if neither can be faster than the other by this part."""

COMPILING = 300.0
"""Seconds that first calls may take; candidates whose turn has not come by then are left out."""


class Bounds(NamedTuple):
    """The median of some numbers, and an interval that holds the true median with a certainty of 95 %."""

    low: float
    median: float
    high: float


def bounds(numbers: Sequence[float]) -> Bounds:
    """By rank, which is right whatever the distribution is; from six numbers on."""
    ranked, count = sorted(numbers), len(numbers)
    tails = [2 * sum(comb(count, fewer) for fewer in range(rank + 1)) / 2**count for rank in range(count // 2)]
    outside = max(sum(tail <= 0.05 for tail in tails) - 1, 0)  # noqa: PLR2004 - one minus the certainty
    return Bounds(ranked[outside], median(ranked), ranked[-1 - outside])


@dataclass(frozen=True)
class Race:
    """The state of a race; `next` runs next, and `after` is the state after it has run."""

    live: tuple[int, ...]  # the candidates that are still in it; the last one is kept
    left: int  # calls that may still be made
    fresh: tuple[int, ...] = ()  # of the live ones, those whose first call is still to come
    queue: tuple[int, ...] = ()  # who runs after these, in order
    times: tuple[tuple[float, ...], ...] = ()  # by candidate, the seconds of each of its calls in the heats
    final: int = 0  # the first round of the final, 0 before it
    compiling: float = 0.0  # seconds that first calls took
    is_due: bool = True  # whether `verdict` is to be asked, and `resumed` told the answer, before the next call

    @classmethod
    def of(cls, count: int, budget: int) -> Self:
        """A race of so many candidates, or of as many as so many calls can tell apart."""
        field = tuple(range(max(1, min(count, (budget - 2 * ROUNDS) // (1 + ROUNDS)))))
        return cls(field, budget, fresh=field if len(field) > 1 else (), times=((),) * count)

    @property
    def kept(self) -> int | None:
        """The winner, None as long as there is none."""
        return self.live[0] if len(self.live) == 1 else None

    @property
    def next(self) -> int:
        """The candidate that the next call runs."""
        return (*self.fresh, *self.queue, *self.live)[0]

    def without(self, candidate: int) -> Self:
        """The race without a candidate that was not run yet, for it is no other than one before."""
        live, fresh = ([each for each in these if each != candidate] for these in (self.live, self.fresh))
        return replace(self, live=tuple(live), fresh=tuple(fresh), is_due=True)

    def after(self, seconds: float) -> Self:
        """The state after the next candidate has run for so long."""
        if self.fresh:
            compiling = self.compiling + seconds
            return replace(self, fresh=self.fresh[1:], left=self.left - 1, compiling=compiling, is_due=True)
        first, *rest = self.queue
        times = tuple((*each, seconds) if index == first else each for index, each in enumerate(self.times))
        return replace(self, queue=tuple(rest), left=self.left - 1, times=times, is_due=not rest)

    def ratio(self, candidate: int, other: int = 0, since: int = 0) -> Bounds:
        """How long a candidate takes beside another one, by the calls of the same rounds."""
        both = zip(self.times[candidate][since:], self.times[other][since:], strict=False)  # one may have left earlier
        return bounds([one / reference for one, reference in both] or [1.0])

    def verdict(self) -> tuple[int, ...]:
        """The candidates that are to stay."""
        if self.fresh:
            late = self.fresh if self.compiling > COMPILING else ()
            return tuple(each for each in self.live if each not in late)
        if len(self.times[0]) < ROUNDS:
            return tuple(each for each in self.live if self.ratio(each).low < HOPELESS)
        if self.final:
            return self._winner(self.live[1])
        ranked = sorted(self.live, key=lambda each: self.ratio(each).median)
        rivals = [each for each in ranked if self._may_win(each, ranked[0])]
        most = min(len(self.live) // 2, self.left // ROUNDS - 3)  # a heat of these and 0, and the final
        return (0, *rivals[: max(1, most)])

    def _may_win(self, each: int, best: int) -> bool:
        is_close = each != best and self.ratio(each, best).low > 1 - CLOSE
        return self.ratio(each).low < 1 - LEAST_GAIN and not is_close

    def _winner(self, best: int) -> tuple[int, ...]:
        won = self.ratio(best, since=self.final)
        if won.high < 1 and won.median < 1 - LEAST_GAIN:
            return (best,)
        return (0,) if won.low > 1 - LEAST_GAIN or self.left < 2 * ROUNDS else self.live

    def resumed(self, stay: tuple[int, ...]) -> Self:
        """The race among those that stay. It depends on nothing else that was timed."""
        race = replace(self, live=stay, fresh=tuple(each for each in self.fresh if each in stay), is_due=False)
        if race.fresh or len(stay) == 1:
            return race
        done = len(self.times[0])
        final = self.final or (done if done >= ROUNDS and len(stay) == 2 else 0)  # noqa: PLR2004 - 0 and the best
        rounds = {0: 2, 2: ROUNDS - 2}.get(done, ROUNDS)  # two are enough to leave out what is hopeless
        chance = Random(done)  # noqa: S311 - nothing secret
        queue = [each for _ in range(rounds) for each in chance.sample(stay, len(stay))]
        return replace(race, queue=tuple(queue), final=final)
