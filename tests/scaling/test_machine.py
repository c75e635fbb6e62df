"""The laws of the loss-scale machine, on Python and NumPy numbers."""

from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixdown.scaling import Law, State, after, start
from mixdown.scaling.machine import LARGEST_SCALE, Where

MULTIPLIERS = [2.0, 3.0, 1.5, 10.0]


def choose(condition: Any, if_true: Any, if_false: Any) -> Any:
    return if_true if condition else if_false


def choose_single(condition: Any, if_true: Any, if_false: Any) -> Any:
    """`choose` as hosts do it: a constant gets the dtype of the weights."""
    chosen = choose(condition, if_true, if_false)
    return np.float32(chosen) if isinstance(chosen, float) else chosen


def run(law: Law, steps: str, state: State | None = None, where: Where = choose) -> list[State]:
    """The states after each step of a story such as "ggb": good, good, bad."""
    states = [state or start(law)]
    for step in steps:
        states.append(after(law, states[-1], finite=step == "g", where=where))
    return states[1:]


def single(law: Law) -> State:
    """The first state in float32, as hosts keep it."""
    return State(np.float32(law.initial), np.int64(0), np.int64(0))


@st.composite
def laws(draw: st.DrawFn) -> Law:
    floor, initial, ceiling = sorted(draw(st.lists(st.floats(2.0**-126, LARGEST_SCALE), min_size=3, max_size=3)))
    return Law(
        initial=initial,
        increment_period=draw(st.integers(1, 4)),
        multiplier=draw(st.sampled_from(MULTIPLIERS)),
        floor=floor,
        ceiling=ceiling,
        tolerance=draw(st.integers(1, 3)),
    )


stories = st.text("gb", max_size=60)


@pytest.mark.parametrize(
    ("law", "story", "scales"),
    [
        (Law(1, 2, 2), "gggggg", [1, 2, 2, 4, 4, 8]),
        (Law(16, 2, 2), "bbbbbb", [8, 4, 2, 1, 1, 1]),
        (Law(4, 2, 3), "ggbgg", [4, 12, 4, 4, 12]),
        (Law(1, 1, 2), "ggg", [2, 4, 8]),
        (Law(8, 2, 2), "gbgbgb", [8, 4, 4, 2, 2, 1]),
        (Law(64, 2, 2, tolerance=2), "bbbgbgbb", [64, 32, 32, 32, 32, 32, 32, 16]),
        (Law(2.0**126, 1, 2), "ggg", [2.0**127] * 3),
        (Law(LARGEST_SCALE / 4, 2, 2), "gggggg", [LARGEST_SCALE / each for each in (4, 2, 2, 1, 1, 1)]),
        (Law(0.5, 1, 2, floor=0.25), "bbg", [0.25, 0.25, 0.5]),
        (Law(4, 1, 2, ceiling=10), "ggg", [8, 8, 8]),
    ],
)
def test_story(law: Law, story: str, scales: list[float]) -> None:
    assert [state.scale for state in run(law, story)] == scales


def test_a_law_that_was_checked_stays_as_it_is() -> None:
    with pytest.raises(FrozenInstanceError):
        Law().floor = 0.0  # type: ignore[misc]
    assert len({Law(), Law(), Law(16)}) == 2


def test_the_default_scale_doubles_after_2000_good_steps_and_not_before() -> None:
    scales = [state.scale for state in run(Law(), "g" * 2000)]
    assert scales == [2.0**15] * 1999 + [2.0**16]


def test_200_bad_steps_then_a_good_one_leave_a_usable_scale() -> None:
    assert run(Law(), "b" * 200 + "g")[-1] == State(1.0, 1, 0)


def test_130_growths_stop_at_the_largest_power_of_two() -> None:
    assert run(Law(increment_period=1), "g" * 130)[-1].scale == 2.0**127


@given(laws(), stories)
def test_the_scale_stays_between_floor_and_ceiling_in_float32(law: Law, story: str) -> None:
    low, high = np.float32(law.floor), np.float32(law.ceiling)
    assert all(low <= state.scale <= high for state in run(law, story, single(law), choose_single))


def test_a_growth_that_rounding_would_carry_past_the_ceiling_is_not_taken() -> None:
    ceiling = 227.93043518066406  # a float32 whose quotient by 1.5, rounded up, times 1.5 is the next float32
    law = Law(float(np.float32(ceiling / 1.5)), 1, 1.5, ceiling=ceiling)
    assert np.float32(law.initial) * np.float32(1.5) > np.float32(ceiling)
    assert run(law, "g", single(law), choose_single)[0].scale == np.float32(law.initial)


@given(laws(), stories)
def test_float32_numbers_stay_float32(law: Law, story: str) -> None:
    assert all(isinstance(state.scale, np.float32) for state in run(law, story, single(law), choose_single))


@given(laws(), stories)
def test_a_bad_step_never_raises_the_scale_and_a_good_one_never_lowers_it(law: Law, story: str) -> None:
    states = [start(law), *run(law, story)]
    for step, before, later in zip(story, states, states[1:], strict=False):
        assert later.scale >= before.scale if step == "g" else later.scale <= before.scale


@given(laws(), stories)
def test_counters_stay_below_their_limits(law: Law, story: str) -> None:
    for state in run(law, story):
        assert 0 <= state.good_steps < law.increment_period
        assert 0 <= state.bad_steps < law.tolerance


@given(laws(), stories, stories)
def test_the_state_is_all_the_memory_there_is(law: Law, head: str, tail: str) -> None:
    whole = run(law, head + tail)
    assert whole[len(head) :] == run(law, tail, whole[len(head) - 1] if head else None)
