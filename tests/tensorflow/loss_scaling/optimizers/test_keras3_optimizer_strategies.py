"""Replicas agree before anyone acts: each run is a process (or two) of its own, see keras3_replicas.py."""

import json
import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import fresh
from tests.tensorflow.loss_scaling.optimizers.keras3_training import NAMES, plain_run

ROOT = Path(__file__).parents[4]
BAD = (2, 5, 6)
TEN_OF_A_HUNDRED = (3, 4, 17, 30, 31, 32, 50, 77, 98, 99)
RUNS = ("ours fit", "ours custom")


@pytest.fixture(scope="module")
def mirrored() -> dict[str, Any]:
    return finished([started("mirrored", 9, BAD, *RUNS, "theirs custom")])[0]


@pytest.fixture(scope="module")
def one_device() -> dict[str, Any]:
    return finished([started("one_device", 9, BAD, *RUNS)])[0]


@pytest.fixture(scope="module")
def workers() -> list[dict[str, Any]]:
    cluster = {"worker": [f"127.0.0.1:{port}" for port in free_ports(2)]}
    configs = [{"cluster": cluster, "task": {"type": "worker", "index": at}} for at in range(2)]
    return finished(
        [started("workers", 100, TEN_OF_A_HUNDRED, "ours custom", TF_CONFIG=json.dumps(each)) for each in configs]
    )


@pytest.mark.parametrize("run", RUNS)
def test_a_nan_on_one_replica_skips_the_step_on_all(run: str, mirrored: dict[str, Any]) -> None:
    result = mirrored[run]
    assert result["skipped"] == list(BAD)
    assert result["scales"] == [2.0**12, 2.0**12]
    assert result["iterations"] == 6
    assert result["weights"] == [[each.hex()] * 2 for each in plain_run(good(9, BAD), 2)]


@pytest.mark.parametrize("run", RUNS)
def test_the_variables_a_bad_replica_spoiled_are_named(run: str, mirrored: dict[str, Any]) -> None:
    assert mirrored[run]["offenders"] == [[name, "NaN"] for name in NAMES]


def test_the_same_nan_gets_through_keras_own_wrapper(mirrored: dict[str, Any]) -> None:
    weights = [bytes.fromhex(part) for each in mirrored["theirs custom"]["weights"] for part in each]
    assert all(np.isnan(np.frombuffer(each, "float32")).all() for each in weights)


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS)
def test_one_device_strategy_is_like_none(run: str, one_device: dict[str, Any]) -> None:
    result = one_device[run]
    assert result["skipped"] == list(BAD)
    assert result["scales"] == [2.0**12]
    assert result["weights"] == [[each.hex()] for each in plain_run(good(9, BAD))]


def test_two_workers_skip_the_same_steps_and_keep_the_same_weights(workers: list[dict[str, Any]]) -> None:
    expected = [[each.hex()] for each in plain_run(good(100, TEN_OF_A_HUNDRED), 2)]
    for worker in workers:
        assert worker["ours custom"]["skipped"] == list(TEN_OF_A_HUNDRED)
        assert worker["ours custom"]["scales"] == [2.0**5]
        assert worker["ours custom"]["weights"] == expected


def good(steps: int, bad: tuple[int, ...]) -> list[int]:
    return [each for each in range(steps) if each not in bad]


def started(strategy: str, steps: int, bad: tuple[int, ...], *runs: str, **env: str) -> Any:
    command = [
        *fresh.python(),
        "-m",
        "tests.tensorflow.loss_scaling.optimizers.keras3_replicas",
        strategy,
        str(steps),
        json.dumps(bad),
    ]
    return subprocess.Popen(  # noqa: S603 - our own script
        [*command, *runs],
        cwd=ROOT,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def finished(processes: list[Any]) -> list[Any]:
    try:
        outputs = [each.communicate(timeout=480) for each in processes]
    finally:
        for each in processes:
            each.kill()
    for process, (_, errors) in zip(processes, outputs, strict=True):
        assert process.returncode == 0, errors[-4000:]
    return [json.loads(out.splitlines()[-1]) for out, _ in outputs]
