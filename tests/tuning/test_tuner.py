"""The tuner of a function: simulated calls, from the first one to the choice, with shapes, workers and threads."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.tuning import test_memory
from tests.tuning.test_candidates import planned

from mixdown import MixdownWarning, Policy
from mixdown.core import Level, Plan, make_plan
from mixdown.tuning import memory
from mixdown.tuning.candidates import candidates
from mixdown.tuning.memory import Identity, Tuned
from mixdown.tuning.tuner import BUDGET, PATIENCE, Tuner, timed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

POLICY = Policy(strategy="tuned", devices="all")
IDENTITY = Identity("train", "1234", "CPU", {})


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(memory.VARIABLE, str(tmp_path))


def plan_of(policy: Policy) -> Plan | None:
    return None if policy.level is Level.NOTHING else make_plan(planned().graph, policy)


def seconds_of(policy: Policy) -> float:
    """Convolutions lose by 16 bits, products and element-wise ops gain."""
    plan = plan_of(policy)
    low = {plan.graph.kinds[s] for s, paint in enumerate(plan.paints) if paint.value == "low"} if plan else set()
    cost = {"Conv2D": 0.4, "MatMul": -0.3, "Relu": -0.05, "Tanh": -0.05}
    return 1.0 + sum(cost.get(kind, 0.0) for kind in low)


def tuned(
    policy: Policy = POLICY, seconds: Callable[[Policy], float] = seconds_of, identity: Identity = IDENTITY
) -> tuple[Tuner, int]:
    """A tuner at its end, and the calls that it took."""
    tuner, calls = Tuner(policy, planned(policy.untuned), identity), 0
    while tuner.tuned is None:
        chosen, note = tuner.next("shapes", plan_of)
        assert note is not None
        note(seconds(chosen))
        calls += 1
    return tuner, calls


def test_the_fastest_candidate_is_kept_and_logged_and_found_again(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "mixdown"):
        tuner, calls = tuned()
        again = Tuner(POLICY, planned(), IDENTITY)
    assert calls <= BUDGET
    assert tuner.tuned is not None
    assert seconds_of(tuner.tuned.policy) == min(seconds_of(each.policy) for each in candidates(planned(), ""))
    assert [record.getMessage().partition("kept ")[0] for record in caplog.records] == [
        "function train on CPU: ",
        "function train on CPU: as in an earlier run, ",
    ]
    assert caplog.records[0].getMessage().endswith(": 0.65 of float32")
    assert again.tuned == tuner.tuned
    assert again.next("any", plan_of) == (tuner.tuned.policy, None)


@pytest.mark.parametrize("damage", test_memory.DAMAGES)
def test_a_function_whose_file_is_damaged_is_tuned_again(damage: str) -> None:
    memory.store(POLICY, test_memory.FOUND)
    memory.place(POLICY, test_memory.IDENTITY).write_text(test_memory.DAMAGES[damage](), "utf-8")
    with pytest.warns(MixdownWarning, match="is not used, and the function is tuned again: ") as told:
        tuner, calls = tuned(identity=test_memory.IDENTITY)
    assert (len(told), calls > len(candidates(planned(), ""))) == (1, True)
    assert memory.recall(POLICY, test_memory.IDENTITY) == tuner.tuned


def test_every_candidate_that_was_timed_is_told_beside_float32() -> None:
    tuner, _ = tuned()
    assert tuner.tuned is not None
    first, *others = tuner.tuned.trials
    assert (first.name, first.ratio, first.seconds) == ("float32", 1.0, 1.0)
    assert len({trial.name for trial in tuner.tuned.trials}) == len(tuner.tuned.trials)
    for trial in others:
        assert trial.low <= trial.ratio <= trial.high
        assert trial.ratio == pytest.approx(trial.seconds)
    best = min(tuner.tuned.trials, key=lambda trial: trial.ratio)
    assert best.name == tuner.tuned.kept


def test_where_nothing_gains_float32_is_kept() -> None:
    tuner, _ = tuned(seconds=lambda policy: 1.0 if policy.level is Level.NOTHING else 1.3)
    assert tuner.tuned is not None
    assert str(tuner.tuned) == "kept float32: nothing was faster"


def test_candidates_that_lead_to_the_same_plan_run_once() -> None:
    seen: list[tuple[object, ...]] = []

    def note_plans(policy: Policy) -> Plan | None:
        plan = plan_of(policy)
        paints = plan.paints if plan and plan.changes_anything else ()
        if paints not in seen:
            seen.append(paints)
        return plan

    tuner = Tuner(POLICY, planned(), IDENTITY)
    while tuner.tuned is None:
        policy, note = tuner.next("shapes", note_plans)
        assert note is not None
        note(1.0 if policy.level is Level.NOTHING else 2.0)
    assert len(tuner.tuned.trials) == len(seen)


def test_the_winner_is_left_out_of_further_layers_if_that_gains() -> None:
    def seconds(policy: Policy) -> float:
        scopes = {override.scope for override in policy.overrides}
        return 1.0 if policy.level is Level.NOTHING else 0.5 if "net/dense" in scopes else 0.7

    tuner, _ = tuned(seconds=seconds)
    assert tuner.tuned is not None
    assert tuner.tuned.kept.endswith("float32 layer net/dense")
    assert str(tuner.tuned).endswith(": 0.50 of float32")


@pytest.mark.parametrize(("expected", "most"), [(0, 200), (2000, 100), (10_000, 500), (100, 0)])
def test_tuning_takes_a_twentieth_of_the_calls_that_are_expected(expected: int, most: int) -> None:
    _, calls = tuned(replace(POLICY, expected_calls=expected))
    assert calls <= most


def test_calls_with_other_shapes_are_not_compared_until_they_are_the_rule() -> None:
    tuner = Tuner(POLICY, planned(), IDENTITY)
    for _ in range(30):
        _, note = tuner.next("batch 32", plan_of)
        assert note is not None
        note(1.0)
        policy, none = tuner.next("the last batch", plan_of)
        assert (policy.level, none) == (Level.NOTHING, None)
    noted = [tuner.next("the last batch", plan_of)[1] is not None for _ in range(PATIENCE)]
    assert noted == [False] * (PATIENCE - 1) + [True]  # one came just before


def test_workers_go_by_what_the_chief_has_timed() -> None:
    said: list[str] = []

    def speak(text: str) -> str:
        said.append(text)
        return text

    chief = Tuner(POLICY, planned(), IDENTITY, speak)
    policies = []
    while chief.tuned is None:
        policy, note = chief.next("shapes", plan_of)
        assert note is not None
        policies.append(policy)
        note(seconds_of(policy))
    heard = iter(said)
    worker = Tuner(POLICY, planned(), IDENTITY._replace(device="another"), lambda _: next(heard))
    for number, policy in enumerate(policies):
        mine, note = worker.next(f"shapes {number}", plan_of)
        assert note is not None
        assert mine == policy
        note(0.001 * (number % 7 + 1))
    assert worker.tuned is not None
    assert worker.tuned.policy == chief.tuned.policy


def test_a_worker_takes_over_what_the_chief_remembers() -> None:
    kept = POLICY.untuned.with_keep("Conv2D")
    memory.store(POLICY, Tuned(*IDENTITY, "some", kept))
    said: list[str] = []
    chief = Tuner(POLICY, planned(), IDENTITY, lambda text: said.append(text) or text)  # type: ignore[func-returns-value]
    worker = Tuner(POLICY, planned(), IDENTITY._replace(device="another"), lambda _: said[0])
    assert chief.next("", plan_of)[0] == worker.next("", plan_of)[0] == kept


def test_a_note_of_a_call_that_was_overtaken_does_not_count() -> None:
    tuner = Tuner(POLICY, planned(), IDENTITY)
    _, one = tuner.next("shapes", plan_of)
    _, other = tuner.next("shapes", plan_of)
    assert one is not None
    assert other is not None
    one(1.0)
    before = tuner._race
    other(1.0)
    assert tuner._race is before


def test_only_one_call_is_timed_at_a_time_and_a_failed_one_is_not() -> None:
    notes: list[float] = []
    inner = timed(lambda: timed(lambda: 5, lambda: None, notes.append), lambda: None, notes.append)
    assert (inner, len(notes)) == (5, 1)

    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        timed(fail, lambda: None, notes.append)
    assert timed(lambda: 6, lambda: None, notes.append) == 6  # the clock is free again
    assert len(notes) == 2


def test_a_call_that_must_be_timed_waits_for_the_clock() -> None:
    notes: list[float] = []
    begun, finished = threading.Event(), threading.Event()

    def first() -> None:
        timed(hold, lambda: None, notes.append)

    def hold() -> None:
        begun.set()
        finished.wait(10)

    thread = threading.Thread(target=first)
    thread.start()
    begun.wait(10)
    second = threading.Thread(target=lambda: timed(lambda: None, lambda: None, notes.append, wait=True))
    second.start()
    finished.set()
    thread.join(10)
    second.join(10)
    assert len(notes) == 2
