"""The cycle collector is paused while a plan is made, and does not have to go through all of it right afterwards."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import pytest

from mixdown.core import gc_pause
from mixdown.core.gc_pause import collector_paused


@pytest.fixture(autouse=True)
def nothing_frozen() -> Iterator[None]:
    """The tests freeze what they load; here the collector sees all of it."""
    gc.unfreeze()
    gc_pause._frozen.clear()
    yield
    gc.freeze()


def test_after_a_pause_the_collector_runs_and_what_was_made_is_old() -> None:
    assert gc.isenabled()
    with collector_paused():
        assert not gc.isenabled()
        many = [[number] for number in range(100 * gc.get_threshold()[0])]
        assert gc.get_count()[0] > len(many)
    assert gc.isenabled()
    assert gc.get_count()[0] < gc.get_threshold()[0]
    assert gc.get_freeze_count() == 0
    old = {id(each) for each in gc.get_objects(generation=2)}
    assert all(id(each) in old for each in many)


def test_a_cycle_made_in_a_pause_is_found_later() -> None:
    with collector_paused():
        for _ in range(101):
            cycle: list[object] = []
            cycle.append(cycle)
    assert gc.collect() >= 100


def test_what_others_keep_from_the_collector_stays_there() -> None:
    kept = [[number] for number in range(1000)]
    gc.freeze()
    with collector_paused():
        assert [[]]
    assert gc.get_freeze_count() >= len(kept)  # others may die meanwhile


def test_what_others_keep_is_counted_once_because_that_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []

    def counted(count: Callable[[], int] = gc.get_freeze_count) -> int:
        counts.append(count())
        return counts[-1]

    monkeypatch.setattr(gc, "get_freeze_count", counted)
    gc.freeze()
    for _ in range(3):
        with collector_paused():
            pass
    assert len(counts) == 1


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    with collector_paused():
        pass
    assert not gc.isenabled()
    gc.enable()
