"""How the scale went, from nothing but the steps that were skipped. Start with `timeline`.

Between two skips all steps were good, and the machine says what becomes of the scale: so the machine is run again, but
from one growth to the next instead of step by step, and a run of a million steps is told in no time.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from mixdown.scaling.machine import Law, State, after, grown, start
from mixdown.scaling.single import Single
from mixdown.scaling.skip_log import SkippedStep

Timeline = tuple[tuple[int, float], ...]  # (the step from which on, the scale), in the order of steps
Moment = tuple[int, State]  # the number of the next step, and the state before it


def timeline(law: Law, steps: int, skips: Sequence[int], *, since: Moment | None = None) -> Timeline:
    """When the scale changed, and what to; the first pair is where the story begins, the last scale the current one.

    Args:
        law: the constants of the machine.
        steps: how many steps were tried; a change by the last of them is told as from step `steps` on.
        skips: the numbers of the skipped ones, in order.
        since: where to begin, if not with the first step.
    """
    at, state = since or (0, start(law))
    now: Moment = (at, state._replace(scale=Single(state.scale)))
    moments = [now]
    for skip in skips:
        moments += good_run(law, *moments[-1], until=skip)
        moments.append((skip + 1, after(law, moments[-1][1], finite=False, where=choose)))
    moments += good_run(law, *moments[-1], until=steps)
    return changes([(at, float(state.scale)) for at, state in moments])


def told(law: Law | None, steps: int, scale: float, skips: Sequence[SkippedStep], skipped_steps: int) -> Timeline:
    """The timeline of a run, as far as its log reaches back.

    A scale that did not follow the law (it was set by hand, or has a law of its own) is told only where it was noted:
    after skips, and now.
    """
    if law is not None:
        fell_out = len(skips) < skipped_steps
        since = (skips[0].step + 1, State(skips[0].scale, 0, skips[0].bad_steps)) if fell_out and skips else None
        replayed = timeline(law, steps, [each.step for each in skips[1 if since else 0 :]], since=since)
        if replayed[-1][1] == scale:
            return replayed
    return changes([*((each.step + 1, each.scale) for each in skips), (steps, scale)])


def good_run(law: Law, at: int, state: State, *, until: int) -> Iterator[Moment]:
    """The moments after each growth on the way to a step, and the moment before that step; none if it is here."""
    while at < until:
        if grown(law, state.scale, choose) == state.scale:  # it has nowhere to go: good steps need not be counted
            yield until, state._replace(bad_steps=0)
            return
        stride = min(law.increment_period - state.good_steps, until - at)
        last = state._replace(good_steps=state.good_steps + stride - 1)
        at, state = at + stride, after(law, last, finite=True, where=choose)
        yield at, state


def choose(condition: Any, if_true: Any, if_false: Any) -> Any:  # noqa: ANN401 - numbers and conditions of any kind
    """Python's own `where`, which gives a constant of the law the type of the scale."""
    chosen = if_true if condition else if_false
    return Single(chosen) if isinstance(chosen, float) else chosen


def changes(points: Sequence[tuple[int, float]]) -> Timeline:
    """The points at which the scale is another than before."""
    before = [None, *(scale for _, scale in points)]
    return tuple(point for point, scale in zip(points, before, strict=False) if point[1] != scale)
