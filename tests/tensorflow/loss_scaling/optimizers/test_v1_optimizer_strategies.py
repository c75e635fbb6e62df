"""Replicas agree before anyone acts: each run is a process (or two) of its own, see v1_replicas.py."""

import json
import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import fresh
from tests.tensorflow.loss_scaling.optimizers.v1_training import W0, reference

from mixdown.scaling import Law, after, start

# Many of these tests hand in gradients of their own making, of no loss at all.
pytestmark = pytest.mark.filterwarnings("ignore:Gradients were applied of a loss")

ROOT = Path(__file__).parents[4]
SCRIPT = Path(__file__).with_name("v1_replicas.py")
BAD = [2, 5, 6]
TEN_OF_A_HUNDRED = [3, 4, 17, 30, 31, 32, 50, 77, 98, 99]


def started(name: str, steps: int, bad: list[int], *forms: str, **variables: str) -> Any:
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": paths, **variables}
    command = [*fresh.python(), str(SCRIPT), name, str(steps), json.dumps(bad), *forms]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=environment, **pipes)  # type: ignore[call-overload]  # noqa: S603 - our script


def finished(process: Any) -> dict[str, Any]:
    try:
        output, errors = process.communicate(timeout=120)
    finally:
        process.kill()  # only a process that hangs is still there
    assert process.returncode == 0, errors[-3000:]
    return json.loads(output.splitlines()[-1])


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def scales(steps: int, bad: list[int]) -> list[float]:
    """The scale after each step, by the pure machine."""
    law, states = Law(1024.0, 6), [start(Law(1024.0, 6))]
    for number in range(steps):
        states.append(after(law, states[-1], finite=number not in bad, where=lambda c, a, b: a if c else b))
    return [state.scale for state in states[1:]]


def assert_right(outcome: dict[str, Any], steps: int, bad: list[int], replicas: int) -> None:
    """Exactly the bad steps were skipped, all copies are equal, and the weights are those of NumPy."""
    assert outcome["skips"] == bad
    assert outcome["scales"] == scales(steps, bad)
    assert outcome["offenders"] == [["w:0", "NaN"]]
    copies = outcome["copies"]
    assert all(len({json.dumps(each) for each in every}) == 1 for every in copies.values())
    expected = reference([np.nan if number in bad else 1.0 for number in range(steps)], replicas)
    ours = {"w": "w:0", "b": "b:0", "mw": "w/Momentum:0", "mb": "b/Momentum:0"}
    for name, variable in ours.items():
        np.testing.assert_allclose(copies[variable][0], expected[name], rtol=1e-4, atol=1e-6)


@pytest.fixture(scope="module")
def mirrored() -> dict[str, Any]:
    return finished(started("mirrored", 9, BAD, "function", "eager", "session", "update", "outside", "huge"))


@pytest.mark.parametrize("form", ["function", "eager", "session"])
def test_mirrored_nan_on_replica_1_alone_skips_the_step_everywhere(form: str, mirrored: dict[str, Any]) -> None:
    copies = mirrored[form]["copies"]
    assert len(copies["w:0"]) == len(copies["current_loss_scale:0"]) == 2
    assert_right(mirrored[form], 9, BAD, replicas=2)


def test_mirrored_update_in_replica_context_agrees_across_replicas(mirrored: dict[str, Any]) -> None:
    outcome = mirrored["update"]
    assert outcome["skips"] == BAD
    assert outcome["scales"] == scales(9, BAD)
    assert outcome["copies"]["current_loss_scale:0"] == [outcome["scales"][-1]] * 2
    assert outcome["copies"]["steps:0"] == [9, 9]


def test_mirrored_update_of_a_scale_built_outside_the_scope_counts_each_step_once(mirrored: dict[str, Any]) -> None:
    outcome = mirrored["outside"]
    assert outcome["scales"] == scales(9, BAD)
    assert outcome["copies"]["steps:0"] == [9]


def test_mirrored_gradients_that_only_add_up_to_inf_are_skipped(mirrored: dict[str, Any]) -> None:
    outcome = mirrored["huge"]
    assert outcome["skips"] == BAD
    assert outcome["offenders"] == [["w:0", "Inf"]]
    assert outcome["copies"]["w:0"] == [W0.tolist()] * 2


def test_one_device() -> None:
    assert_right(finished(started("one_device", 9, BAD, "function"))["function"], 9, BAD, replicas=1)


@pytest.mark.slow
def test_two_workers_with_nan_on_one_of_them_at_10_of_100_steps() -> None:
    cluster = {"worker": [f"127.0.0.1:{port}" for port in free_ports(2)]}
    configs = [json.dumps({"cluster": cluster, "task": {"type": "worker", "index": at}}) for at in range(2)]
    workers = [started("workers", 100, TEN_OF_A_HUNDRED, "function", "update", TF_CONFIG=each) for each in configs]
    first, second = (finished(each) for each in workers)
    assert first == second
    assert_right(first["function"], 100, TEN_OF_A_HUNDRED, replicas=2)
    assert first["update"]["skips"] == TEN_OF_A_HUNDRED
