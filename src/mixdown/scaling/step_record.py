"""How training went: `StepRecord`, and the timeline of its scale, computed from the skipped steps alone.

Between two skips all steps were good, and the state machine determines what becomes of the scale: so `timeline` runs
the machine again, but from one growth to the next instead of step by step. A million steps take no time.

The optimizers of this process that have such a record are known here, held weakly: `remember` and `alive`.
"""

from collections.abc import Iterator, Sequence
from itertools import count
from struct import pack, unpack
from typing import Any, NamedTuple, Self
from weakref import WeakValueDictionary

from mixdown.scaling.machine import Law, State, after, grown, start
from mixdown.scaling.step_counters import Offenders, SkippedStep

Timeline = tuple[tuple[int, float], ...]  # (the step from which on, the scale), in the order of steps
Moment = tuple[int, State]  # the number of the next step, and the state before it

_alive: WeakValueDictionary[int, Any] = WeakValueDictionary()
_numbers = count()


class StepRecord(NamedTuple):
    """How training went so far, in Python values."""

    loss_scale: float
    steps: int
    skipped_steps: int
    last_skipped_step: int | None
    skips_in_a_row: int
    good_steps: int
    skips: list[SkippedStep]  # the latest 256, oldest first
    law: Law | None  # of the scale; None if it is none that mixdown knows

    @property
    def offending_variables(self) -> Offenders:
        """The first variables whose gradient was not finite in the latest skipped step, with "Inf" or "NaN"."""
        return self.skips[-1].offenders if self.skips else []

    @property
    def timeline(self) -> Timeline:
        """When the scale changed, and what to, as far as the log of skips reaches back.

        If the scale did not follow the law (it was set by hand, or has a law of its own), only the scales after skips
        and the current one are known.
        """
        if self.law is not None:
            logged = len(self.skips) == self.skipped_steps
            first = None if logged or not self.skips else self.skips[0]
            since = None if first is None else (first.step + 1, State(first.scale, 0, first.bad_steps))
            skips = [each.step for each in self.skips[0 if since is None else 1 :]]
            replayed = timeline(self.law, self.steps, skips, since=since)
            if replayed[-1][1] == self.loss_scale:
                return replayed
        return changes([*((each.step + 1, each.scale) for each in self.skips), (self.steps, self.loss_scale)])

    def skips_after(self, number: int) -> list[tuple[int, SkippedStep]]:
        """The skips that came after the first `number` ones, each with its own number, as far as they are logged."""
        numbered = enumerate(self.skips, self.skipped_steps - len(self.skips) + 1)
        return [(each, skip) for each, skip in numbered if each > number]


def timeline(law: Law, steps: int, skips: Sequence[int], *, since: Moment | None = None) -> Timeline:
    """When the scale changed, and what to; the first pair is the beginning, the last scale the current one.

    Of `steps` that were tried, those numbered in `skips` were skipped; a change by the last counts from `steps` on.
    """
    at, state = since or (0, start(law))
    moments: list[Moment] = [(at, state._replace(scale=Single(state.scale)))]
    for skip in skips:
        moments += good_run(law, *moments[-1], until=skip)
        moments.append((skip + 1, after(law, moments[-1][1], finite=False, where=choose)))
    moments += good_run(law, *moments[-1], until=steps)
    return changes([(at, float(state.scale)) for at, state in moments])


def good_run(law: Law, at: int, state: State, *, until: int) -> Iterator[Moment]:
    """The moments after each growth on the way to step `until`, and the moment before that step; none if `at` is it."""
    while at < until:
        if grown(law, state.scale, choose) == state.scale:  # it cannot grow: good steps need not be counted
            yield until, state._replace(bad_steps=0)
            return
        stride = min(law.increment_period - state.good_steps, until - at)
        last = state._replace(good_steps=state.good_steps + stride - 1)
        at, state = at + stride, after(law, last, finite=True, where=choose)
        yield at, state


def choose(condition: Any, if_true: Any, if_false: Any) -> Any:  # noqa: ANN401 - numbers and conditions of any kind
    """`where` for Python numbers, which gives a constant of the law the type of the scale."""
    chosen = if_true if condition else if_false
    return Single(chosen) if isinstance(chosen, float) else chosen


def changes(points: Sequence[tuple[int, float]]) -> Timeline:
    """The points at which the scale is another than before."""
    before = [None, *(scale for _, scale in points)]
    return tuple(point for point, scale in zip(points, before, strict=False) if point[1] != scale)


class Single(float):
    """A float32 in Python, to the bit: the scale as every host keeps it.

    Products and quotients are taken in float64 and rounded once, which for two float32 gives the same as float32
    hardware. Operands are rounded too, as a host does with the constants of a law.
    """

    def __new__(cls, value: float) -> Self:
        """The nearest float32."""
        return super().__new__(cls, rounded(value))

    def __mul__(self, other: float) -> "Single":
        return Single(float(self) * rounded(other))

    def __truediv__(self, other: float) -> "Single":
        return Single(float(self) / rounded(other))

    def __le__(self, other: float) -> bool:
        return float(self) <= rounded(other)

    def __gt__(self, other: float) -> bool:
        return float(self) > rounded(other)


def rounded(value: float) -> float:
    """The nearest float32, as a plain float; inf beyond the largest."""
    (nearest,) = unpack("f", pack("f", value))
    return float(nearest)


def remember(optimizer: object) -> None:
    """Report this optimizer as long as it lives."""
    _alive[next(_numbers)] = optimizer


def alive() -> list[Any]:
    """The optimizers that still live, in the order in which they were made."""
    return list(_alive.values())


def readable_records() -> Iterator[tuple[str, StepRecord]]:
    """The names and records of those that have one set of counters which can be read now, as with Keras 3."""
    for optimizer in alive():
        if getattr(optimizer, "may_be_read", False):
            yield name_of(optimizer), optimizer.account()


def name_of(optimizer: Any) -> str:  # noqa: ANN401 - of any library
    """The name of the optimizer inside."""
    inner = getattr(optimizer, "inner_optimizer", None)
    return str(optimizer.get_name() if inner is None else getattr(inner, "name", None) or inner._name)  # noqa: SLF001 - v1
