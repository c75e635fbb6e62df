"""A process killed in the middle of training and started again ends where one that was never killed ends."""

from pathlib import Path
from typing import Any

import pytest
from tests.reliability.conftest import Tally
from tests.reliability.fault_processes import killed_at, lines, lines_of_all, started, worker_configs
from tests.reliability.fault_survivor import COUNT
from tests.reliability.fault_training import SCALE, schedule, trained

STEPS = 18
HOSTS = ("keras 3", "tf_keras", "v1")


def test_killed_training_resumes_and_ends_as_if_it_never_was(tmp_path: Path, tally: Tally) -> None:
    killed_at(started("fault_survivor", str(tmp_path), str(STEPS), *HOSTS), line="9")
    told = lines(started("fault_survivor", str(tmp_path), str(STEPS), *HOSTS))
    for host in HOSTS:
        assert 9 <= told[0][host]["next"] <= 10
        assert told[0][host] == expected_books(told[0][host])
        books, state = told[-1][host]
        assert books == expected_books(books)
        assert books["next"] == STEPS
        assert state == uninterrupted(host)
    tally("faults injected")


def uninterrupted(host: str) -> list[list[str]]:
    job = trained(host, range(STEPS), schedule(11, STEPS, COUNT), mixed=True)
    return [[part.hex() for part in each] for each in job.state()]


def expected_books(told: dict[str, Any], replicas: int = 1) -> dict[str, Any]:
    """What the books must say before that step: one skip a fault, and half the scale after each."""
    done = told["next"]
    bad = [fault.step for fault in schedule(11, STEPS, COUNT, replicas) if fault.step < done]
    return {
        "next": done,
        "loss_scale": SCALE / 2.0 ** len(bad),
        "steps": done,
        "good_steps": done - max(bad, default=-1) - 1,
        "skipped_steps": len(bad),
        "skips": told["skips"] if [step for step, _ in told["skips"]] == bad else bad,
    }


@pytest.mark.slow
def test_fit_with_a_backup_resumes_after_a_kill(tmp_path: Path, tally: Tally) -> None:
    def run(place: str) -> Any:
        return started("fault_backup", "keras", str(tmp_path / place / "backup"), "3")

    calm = lines(run("calm"))
    killed_at(run("killed"), line="1", times=2)
    resumed = lines(run("killed"))
    assert [each["epoch"] for each in resumed if isinstance(each, dict) and "epoch" in each] == [1, 2]
    assert resumed[0] == calm[6]  # the books at the start of the epoch that was cut short
    assert resumed[-1] == calm[-1]
    assert calm[-1]["skipped_steps"] == 3
    tally("faults injected")


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["2", "7", "13"])
def test_training_killed_again_and_again_ends_as_if_it_never_was(tmp_path: Path, moment: str, tally: Tally) -> None:
    for line in (moment, str(int(moment) + 1), str(int(moment) + 3)):
        killed_at(started("fault_survivor", str(tmp_path), str(STEPS), *HOSTS), line=line)
        tally("faults injected")
    told = lines(started("fault_survivor", str(tmp_path), str(STEPS), *HOSTS))
    for host in HOSTS:
        assert told[-1][host][1] == uninterrupted(host)


def kill_second(workers: list[Any], line: str, times: int = 1) -> None:
    """Kill one of two workers. The other's steps need its gradients: whoever runs the cluster starts both again."""
    first, second = workers
    try:
        killed_at(second, line, times)
    finally:
        first.kill()
        first.communicate()


@pytest.mark.slow
def test_a_worker_killed_and_restarted_resumes_where_both_were(tmp_path: Path, tally: Tally) -> None:
    hosts = ("tf_keras", "v1")  # Keras 3 builds its checkpoints as these do; a third would only take longer

    def workers(place: str) -> list[Any]:
        arguments = (str(tmp_path / place), str(STEPS), *hosts)
        return [started("fault_survivor", *arguments, TF_CONFIG=config) for config in worker_configs(2)]

    calm = lines_of_all(workers("calm"))
    kill_second(workers("killed"), line="9")
    resumed = lines_of_all(workers("killed"))
    for told, never_killed in zip(resumed, calm, strict=True):
        for host in hosts:
            assert told[0][host] == expected_books(told[0][host], replicas=2)
            assert 9 <= told[0][host]["next"] <= 10
        assert told[-1] == never_killed[-1]
    assert resumed[0][-1] == resumed[1][-1]
    tally("faults injected")


@pytest.mark.slow
def test_fit_on_two_workers_with_a_backup_resumes_after_one_is_killed(tmp_path: Path, tally: Tally) -> None:
    def workers(place: str) -> list[Any]:
        arguments = ("tf_keras", str(tmp_path / place / "backup"), "3")
        return [started("fault_backup", *arguments, TF_CONFIG=config) for config in worker_configs(2)]

    calm = lines_of_all(workers("calm"))
    kill_second(workers("killed"), line="1", times=2)
    resumed = lines_of_all(workers("killed"))
    for told, never_killed in zip(resumed, calm, strict=True):
        assert told[0] == never_killed[6]
        assert told[0]["epoch"] == 1
        assert told[0]["skipped_steps"] == 1
        assert told[-1] == never_killed[-1]
    assert resumed[0][-1] == resumed[1][-1]
    tally("faults injected")
