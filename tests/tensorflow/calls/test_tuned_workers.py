"""Two workers that tune a step together, each with a clock and a cache folder of its own: see tuned_workers.py."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.tensorflow.calls.test_twins_distribution import addresses, answer, started

from mixdown import Policy
from mixdown.core import Level
from mixdown.tuning.memory import VARIABLE

ALL = 70  # steps, of which tuning takes 60 at most
FASTER, SLOWER = "0.5", "2"  # what the clocks say of 16 bits


class Cluster:
    """The same two places again and again, as when a cluster is restarted."""

    def __init__(self, folder: Path, *clocks: str) -> None:
        self._hosts, self._folder, self._clocks = addresses(len(clocks)), folder, clocks

    def start(self, steps: int) -> list[Any]:
        return [
            started(
                "tuned_workers",
                str(steps),
                clock,
                TF_CONFIG=json.dumps({"cluster": {"worker": self._hosts}, "task": {"type": "worker", "index": index}}),
                **{VARIABLE: str(self.cache(index))},
            )
            for index, clock in enumerate(self._clocks)
        ]

    def cache(self, index: int) -> Path:
        return self._folder / str(index)


def kept(workers: list[Any]) -> Policy:
    """What all workers kept: the same, with the same weights in the end."""
    first, *others = [answer(worker) for worker in workers]
    assert len(first["kept"]) == 1
    assert all(other == first for other in others)
    return Policy.from_dict(first["kept"][0])


@pytest.mark.slow
@pytest.mark.parametrize(("clocks", "level"), [((FASTER, SLOWER), Level.DEFAULT), ((SLOWER, FASTER), Level.NOTHING)])
def test_all_workers_keep_what_the_clock_of_the_chief_says(
    clocks: tuple[str, str], level: Level, tmp_path: Path
) -> None:
    assert kept(Cluster(tmp_path, *clocks).start(ALL)).level is level


@pytest.mark.slow
def test_a_worker_that_was_killed_while_tuning_has_the_same_plan_after_a_restart(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, FASTER, SLOWER)
    chief, worker = cluster.start(ALL)
    with chief, worker:
        while worker.stdout.readline() != "step 20\n":
            assert worker.poll() is None, worker.stderr.read()
        worker.kill()
        assert worker.wait(60) == -signal.SIGKILL
        chief.kill()  # no collective works any more: TensorFlow wants the whole cluster to be restarted
    assert not list(tmp_path.rglob("*.json"))  # nothing was kept yet
    first = kept(cluster.start(ALL))
    for each in cluster.cache(1).rglob("*.json"):
        each.unlink()
    assert kept(cluster.start(3)) == first  # the chief remembers, and the worker is told
