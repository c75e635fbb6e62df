"""NaN and Inf at any step, in any variable, on any replica: exactly these steps are skipped, as if never taken."""

from functools import cache
from typing import Any

import pytest
from tests.reliability.conftest import Tally
from tests.reliability.fault_processes import answer, started
from tests.reliability.fault_training import HOSTS, ON_REPLICAS, Job, books, good, schedule, trained

STEPS, COUNT = 16, 6
FAULTS = {host: schedule(seed, STEPS, COUNT) for seed, host in enumerate(HOSTS)}


@cache
def spoiled(host: str, *, mixed: bool) -> Job:
    return trained(host, range(STEPS), FAULTS[host], mixed=mixed)


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("host", HOSTS)
def test_weights_are_those_of_a_run_that_never_saw_a_bad_step(host: str, tally: Tally, *, mixed: bool) -> None:
    clean = trained(host, good(STEPS, FAULTS[host]), mixed=mixed)
    assert spoiled(host, mixed=mixed).state() == clean.state()
    assert clean.account().skipped_steps == 0
    tally("faults injected", COUNT)


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("host", HOSTS)
def test_the_books_name_every_bad_step_and_variable_and_no_other(host: str, *, mixed: bool) -> None:
    job = spoiled(host, mixed=mixed)
    said, expected = books(job, FAULTS[host])
    assert said == expected
    assert (job.account().steps, job.account().skipped_steps) == (STEPS, COUNT)


@pytest.mark.parametrize("host", HOSTS)
def test_mixed_runs_are_mixed(host: str) -> None:
    """Otherwise the tests above would say nothing about twins."""
    assert spoiled(host, mixed=True).state() != spoiled(host, mixed=False).state()


@pytest.fixture(scope="module")
def replicas() -> Any:
    return answer(started("fault_replicas"))


@pytest.mark.slow  # on two replicas, every host has a quick test beside its optimizer's
@pytest.mark.parametrize("host", ON_REPLICAS)
def test_a_fault_on_any_one_of_three_replicas_skips_the_step_on_all(host: str, replicas: Any, tally: Tally) -> None:
    ran = replicas[host]
    assert ran["said"] == ran["expected"]
    assert {part["replica"] for part in ran["faults"]} == {0, 1, 2}
    assert ran["spoiled"] == ran["clean"]
    assert all(len(set(parts)) == 1 for parts in ran["spoiled"]), "replicas differ"
    assert len(ran["spoiled"][0]) == 3
    tally("faults injected", len(ran["faults"]))
