"""Races among candidates, with simulated times: who is kept, after how many calls, and that nothing else decides."""

from __future__ import annotations

from random import Random
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixdown.tuning.race import COMPILING, LEAST_GAIN, Race, bounds

BUDGET = 200
FAST = [1.0, 0.7, 0.8, 0.75, 1.1, 0.9, 0.72, 1.0, 1.2, 0.85]
SLOW = [1.0, 1.2, 1.3, 1.1, 1.5, 1.4, 1.05, 1.2, 1.1, 1.3]
QUIET, LOADED = (0.02, 0.0), (0.08, 0.1)  # the spread of a call's time, and how often another program interrupts it


def dice(seed: int) -> Random:
    """Chance that can be repeated."""
    return Random(seed)  # noqa: S311 - no secret


def noisy(chance: Random, noise: tuple[float, float]) -> float:
    """What noise multiplies a time with."""
    spread, interrupted = noise
    return chance.lognormvariate(0, spread) * (1.5 if chance.random() < interrupted else 1)


def raced(true: list[float], noise: tuple[float, float] = QUIET, seed: int = 0, budget: int = BUDGET) -> Race:
    """A race of candidates with these true times, to its end."""
    chance, race = dice(seed), Race.of(len(true), budget)
    while race.kept is None:
        race = race.resumed(race.verdict()) if race.is_due else race.after(true[race.next] * noisy(chance, noise))
    return race


@pytest.mark.parametrize("noise", [QUIET, LOADED])
@pytest.mark.parametrize("true", [FAST, SLOW, [1.0] * 8, [1.0, 0.5], [1.0, 1.5, 0.9], [1.0]])
def test_what_is_kept_is_within_three_percent_of_the_best_in_95_of_100_races(
    true: list[float], noise: tuple[float, float]
) -> None:
    kept = [raced(true, noise, seed).kept or 0 for seed in range(100)]
    assert sum(true[each] <= 1.03 * min(true) for each in kept) >= 95
    assert sum(true[each] > 1.02 for each in kept) <= 1


times = st.lists(st.floats(0.3, 3.0), min_size=1, max_size=12)


@settings(max_examples=200, deadline=None)
@given(times, st.integers(0, 2**16), st.integers(1, 400))
def test_a_race_ends_within_its_budget_and_keeps_a_candidate(true: list[float], seed: int, budget: int) -> None:
    race = raced([1.0, *true], LOADED, seed, budget)
    assert race.kept in range(len(true) + 1)
    assert race.left >= 0


@settings(max_examples=100, deadline=None)
@given(times, st.integers(0, 2**16))
def test_without_noise_nothing_slower_is_kept_and_a_clear_gain_always_is(true: list[float], seed: int) -> None:
    race = raced([1.0, *true], (0.0, 0.0), seed)
    kept = [1.0, *true][race.kept or 0]
    assert kept <= 1
    assert kept <= 1.01 * min(1.0, *true) + LEAST_GAIN


def test_the_same_times_lead_to_the_same_race() -> None:
    assert raced(FAST, LOADED, 3) == raced(FAST, LOADED, 3)


@given(st.lists(st.floats(1e-6, 1e3), min_size=6, max_size=40))
def test_bounds_hold_the_median_and_are_found_among_the_numbers(numbers: list[float]) -> None:
    low, middle, high = bounds(numbers)
    assert middle == median(numbers)
    assert low <= middle <= high
    assert {low, high} <= set(numbers)


def test_the_interval_holds_the_true_median_as_often_as_it_says() -> None:
    chance = dice(1)
    for count in (6, 12, 30):
        found = [bounds([chance.expovariate(1) for _ in range(count)]) for _ in range(1000)]
        assert sum(low <= 0.6931 <= high for low, _, high in found) >= 950  # the median is the logarithm of 2


def test_the_first_call_of_each_candidate_is_not_timed_and_all_run_in_every_round() -> None:
    race = Race.of(3, BUDGET)
    order: list[int] = []
    while len(order) < 9:
        race = race.resumed(race.verdict()) if race.is_due else race
        order.append(race.next)
        race = race.after(100.0 if len(order) <= 3 else 1.0)
    assert order[:3] == [0, 1, 2]
    assert all(sorted(order[at : at + 3]) == [0, 1, 2] for at in (3, 6))
    assert all(seconds == 1.0 for each in race.times for seconds in each)


def test_candidates_that_would_take_too_long_to_compile_are_left_out() -> None:
    race = Race.of(5, BUDGET)
    for _ in range(2):
        race = race.resumed(race.verdict()).after(COMPILING)
    assert race.verdict() == (0, 1)


def test_a_hopeless_candidate_is_timed_twice_only() -> None:
    race = raced([1.0, 13.0, 0.8])
    assert (race.kept, len(race.times[1])) == (2, 2)


def test_what_was_timed_by_a_worker_does_not_matter_if_the_chief_decides() -> None:
    true, chance = FAST, dice(5)
    chief = worker = Race.of(len(true), BUDGET)
    while chief.kept is None:
        assert (chief.next, chief.is_due) == (worker.next, worker.is_due)
        if chief.is_due:
            said = chief.verdict()
            chief, worker = chief.resumed(said), worker.resumed(said)
        else:
            chief, worker = chief.after(true[chief.next] * noisy(chance, QUIET)), worker.after(chance.random() + 0.1)
    assert chief.kept == worker.kept == 1


def test_few_calls_compare_few_candidates() -> None:
    assert Race.of(20, 60).live == (0, 1, 2, 3, 4, 5)
    assert Race.of(20, 5).kept == 0
