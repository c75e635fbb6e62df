"""The laws of the counts of steps."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mixdown.scaling import StepCounts, counted
from mixdown.scaling.step_counters import NEVER

stories = st.lists(st.booleans(), max_size=60)


def choose(condition: Any, if_true: Any, if_false: Any) -> Any:
    return if_true if condition else if_false


def run(story: list[bool]) -> StepCounts:
    counts = StepCounts()
    for finite in story:
        counts = counted(counts, finite=finite, where=choose)
    return counts


def test_no_step_no_skip() -> None:
    assert run([]) == StepCounts(steps=0, skipped_steps=0, last_skipped_step=NEVER, skips_in_a_row=0)


def test_story() -> None:
    assert run([True, False, True, False, False]) == StepCounts(5, 3, 4, 2)


@given(stories)
def test_every_step_is_counted_once(story: list[bool]) -> None:
    assert run(story).steps == len(story)
    assert run(story).skipped_steps == story.count(False)


@given(stories)
def test_the_last_skipped_step_is_the_position_of_the_last_bad_step(story: list[bool]) -> None:
    bad = [number for number, finite in enumerate(story) if not finite]
    assert run(story).last_skipped_step == (bad[-1] if bad else NEVER)


@given(stories, st.integers(0, 20))
def test_skips_in_a_row_is_the_length_of_the_bad_tail(story: list[bool], tail: int) -> None:
    assert run([*story, True, *[False] * tail]).skips_in_a_row == tail
