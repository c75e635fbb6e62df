"""The timeline of a scale is what the machine would have done, told from the skipped steps alone."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixdown.scaling import Law, State, StepRecord, after
from mixdown.scaling.machine import LARGEST_SCALE
from mixdown.scaling.step_counters import SkippedStep
from mixdown.scaling.step_record import Timeline, timeline

FLOATS = st.floats(2.0**-126, LARGEST_SCALE)
stories = st.text("gb", max_size=60) | st.text("gggggb", max_size=60)


@st.composite
def laws(draw: st.DrawFn) -> Law:
    floor, initial, ceiling = sorted(draw(st.lists(FLOATS, min_size=3, max_size=3)))
    return Law(
        initial=initial,
        increment_period=draw(st.integers(1, 4)),
        multiplier=draw(st.sampled_from([2.0, 3.0, 1.5, 1.1, 10.0])),
        floor=floor,
        ceiling=ceiling,
        tolerance=draw(st.integers(1, 3)),
    )


def choose_single(condition: Any, if_true: Any, if_false: Any) -> Any:
    chosen = if_true if condition else if_false
    return np.float32(chosen) if isinstance(chosen, float) else chosen


def states(law: Law, story: str) -> list[State]:
    """The state before each step and after the last, step by step in NumPy's float32, as hosts keep it."""
    found = [State(np.float32(law.initial), 0, 0)]
    for step in story:
        found.append(after(law, found[-1], finite=step == "g", where=choose_single))
    return found


def skips_of(story: str) -> list[int]:
    return [at for at, step in enumerate(story) if step == "b"]


def spread(points: Any, first: int, end: int) -> list[float]:
    """The scale before each step, as a timeline tells it."""
    return [[scale for since, scale in points if since <= step][-1] for step in range(first, end + 1)]


@given(laws(), stories)
def test_a_timeline_tells_the_scale_of_every_step_to_the_bit(law: Law, story: str) -> None:
    scales = [float(state.scale) for state in states(law, story)]
    assert spread(timeline(law, len(story), skips_of(story)), 0, len(story)) == scales


def test_a_growth_that_rounding_would_carry_past_the_largest_float32_is_not_taken() -> None:
    law = Law(float(np.float32(LARGEST_SCALE / 1.1)), 1, 1.1)  # the quotient is rounded up
    assert timeline(law, 5, []) == ((0, law.initial),)


@given(laws(), stories)
def test_a_timeline_holds_changes_only(law: Law, story: str) -> None:
    points = timeline(law, len(story), skips_of(story))
    assert all(one[0] < other[0] and one[1] != other[1] for one, other in pairwise(points))
    assert all(type(scale) is float for _, scale in points)


@given(laws(), stories, stories)
def test_a_timeline_may_begin_at_any_moment(law: Law, head: str, tail: str) -> None:
    whole = states(law, head + tail)
    skips = [at for at in skips_of(head + tail) if at >= len(head)]
    points = timeline(law, len(whole) - 1, skips, since=(len(head), whole[len(head)]))
    assert spread(points, len(head), len(whole) - 1) == [float(state.scale) for state in whole[len(head) :]]


@pytest.mark.parametrize(
    ("law", "steps", "skips", "points"),
    [
        (Law(), 0, [], ((0, 2.0**15),)),
        (Law(), 4001, [], ((0, 2.0**15), (2000, 2.0**16), (4000, 2.0**17))),
        (Law(16, 2), 5, [2], ((0, 16), (2, 32), (3, 16), (5, 32))),
        (Law(4, 1, ceiling=8), 10**12, [10**11], ((0, 4), (1, 8), (10**11 + 1, 4), (10**11 + 2, 8))),
        (Law(8, floor=8, ceiling=8), 10**12, [7, 8], ((0, 8),)),
    ],
)
def test_story(law: Law, steps: int, skips: list[int], points: Any) -> None:
    assert timeline(law, steps, skips) == points


def log(law: Law, story: str, kept: int) -> list[SkippedStep]:
    """What a log that keeps so many skips would hold."""
    after_each = states(law, story)[1:]
    entries = [SkippedStep(at, float(after_each[at].scale), after_each[at].bad_steps, []) for at in skips_of(story)]
    return entries[-kept:]


def told(law: Law | None, steps: int, scale: float, skips: list[SkippedStep], skipped_steps: int) -> Timeline:
    """The timeline of a record."""
    record = StepRecord(scale, steps, skipped_steps, None, 0, 0, skips, law)
    return record.timeline


@given(laws(), stories, st.integers(1, 5))
def test_a_log_that_lost_old_skips_still_tells_the_rest_to_the_bit(law: Law, story: str, kept: int) -> None:
    scales, entries = [float(state.scale) for state in states(law, story)], log(law, story, kept)
    points = told(law, len(story), scales[-1], entries, story.count("b"))
    first = points[0][0]
    assert first == (0 if story.count("b") <= kept else entries[0].step + 1)
    assert spread(points, first, len(story)) == scales[first:]


def test_a_scale_that_left_its_law_is_told_where_it_was_noted() -> None:
    entries = [SkippedStep(3, 8.0, 0, []), SkippedStep(5, 4.0, 0, [])]
    assert told(Law(16), 9, 32.0, entries, 2) == ((4, 8.0), (6, 4.0), (9, 32.0))
    assert told(None, 9, 4.0, entries, 2) == ((4, 8.0), (6, 4.0))
    assert told(Law(16), 9, 32.0, [], 2) == ((9, 32.0),)
