"""The search for the smallest set: right, minimal, and within its bound of runs."""

from math import ceil, log2

from hypothesis import given
from hypothesis import strategies as st

from mixdown.numerics.calibrated import smallest_kept

SIZES = st.integers(1, 200)


def bound(n: int, k: int) -> int:
    """Runs that are allowed, less the two of the reference and of everything mixed."""
    return 2 * k * ceil(log2(n))


@given(st.data(), SIZES)
def test_planted_items_are_found_within_the_bound(data: st.DataObject, n: int) -> None:
    planted = data.draw(st.sets(st.integers(0, n - 1), max_size=6))
    found, runs = smallest_kept(range(n), lambda kept: planted <= kept)
    assert set(found) == planted
    assert runs <= bound(n, len(planted)) + 1


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=60), st.floats(0.01, 3.0))
def test_what_is_found_is_enough_and_nothing_in_it_can_be_left_out(errors: list[float], tolerance: float) -> None:
    def passes(kept: frozenset[int]) -> bool:
        return sum(error for item, error in enumerate(errors) if item not in kept) <= tolerance

    found, _ = smallest_kept(range(len(errors)), passes)
    assert passes(frozenset(found))
    assert not any(passes(frozenset(found) - {item}) for item in found)


@given(st.data(), st.integers(2, 60))
def test_no_set_is_tried_twice(data: st.DataObject, n: int) -> None:
    planted = data.draw(st.sets(st.integers(0, n - 1), max_size=5))
    tried: list[frozenset[int]] = []

    def passes(kept: frozenset[int]) -> bool:
        assert kept not in tried
        tried.append(kept)
        return planted <= kept

    _, runs = smallest_kept(range(n), passes)
    assert runs == len(tried)


def test_nothing_to_choose_from_takes_no_run() -> None:
    assert smallest_kept([], lambda _: False) == ([], 0)
