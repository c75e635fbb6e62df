"""Replicas agree before anyone acts: each run is a process (or two) of its own, see tf_keras_replicas.py."""

import json
import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests import fresh
from tests.tensorflow.loss_scaling.optimizers.tf_keras_training import plain_run

ROOT = Path(__file__).parents[4]
TEN_OF_A_HUNDRED = (3, 4, 17, 30, 31, 32, 50, 77, 98, 99)


BAD = (2, 5, 6)
RUNS = ("new fit", "new custom", "legacy fit", "legacy custom")
ONE_DEVICE = ("new fit", "legacy custom")
UNSUMMED = ("new unsummed", "legacy unsummed")


@pytest.fixture(scope="module")
def mirrored() -> dict[str, Any]:
    return finished([started("mirrored", 9, BAD, *RUNS, *UNSUMMED)])[0]


@pytest.fixture(scope="module")
def one_device() -> dict[str, Any]:
    return finished([started("one_device", 9, BAD, *ONE_DEVICE)])[0]


@pytest.fixture(scope="module")
def workers() -> list[dict[str, Any]]:
    cluster = {"worker": [f"127.0.0.1:{port}" for port in free_ports(2)]}
    configs = [{"cluster": cluster, "task": {"type": "worker", "index": at}} for at in range(2)]
    return finished([started("workers", 100, TEN_OF_A_HUNDRED, *RUNS, TF_CONFIG=json.dumps(each)) for each in configs])


@pytest.mark.parametrize("run", RUNS)
def test_a_nan_on_one_replica_skips_the_step_on_all(run: str, mirrored: dict[str, Any]) -> None:
    result = mirrored[run]
    assert result["skipped"] == list(BAD)
    assert result["scales"] == [2.0**12, 2.0**12]
    assert result["iterations"] == 6
    assert result["weights"] == [[each.hex()] * 2 for each in plain_run(style_of(run), 9, 2, bad=BAD)]


@pytest.mark.parametrize("run", UNSUMMED)
def test_replicas_agree_even_on_gradients_that_were_not_summed(run: str, mirrored: dict[str, Any]) -> None:
    result = mirrored[run]
    assert result["skipped"] == list(BAD)
    assert result["scales"] == [2.0**12, 2.0**12]
    assert result["weights"] == [[each.hex()] * 2 for each in plain_run(style_of(run), 9, 1, bad=BAD)]


@pytest.mark.parametrize("run", [*RUNS, *UNSUMMED])
def test_the_variables_a_bad_replica_spoiled_are_named(run: str, mirrored: dict[str, Any]) -> None:
    names = ["first/kernel:0", "first/bias:0", "last/kernel:0", "last/bias:0"]
    assert mirrored[run]["offenders"] == [[name, "NaN"] for name in names]


@pytest.mark.slow
@pytest.mark.parametrize("run", ONE_DEVICE)
def test_one_device_strategy_is_like_none(run: str, one_device: dict[str, Any]) -> None:
    result = one_device[run]
    assert result["skipped"] == list(BAD)
    assert result["scales"] == [2.0**12]
    assert result["weights"] == [[each.hex()] for each in plain_run(style_of(run), 9, 1, bad=BAD)]


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS)
def test_two_workers_skip_the_same_steps_and_keep_the_same_weights(run: str, workers: list[dict[str, Any]]) -> None:
    expected = [[each.hex()] for each in plain_run(style_of(run), 100, 2, bad=TEN_OF_A_HUNDRED)]
    for worker in workers:
        assert worker[run]["skipped"] == list(TEN_OF_A_HUNDRED)
        assert worker[run]["scales"] == [2.0**5]
        assert worker[run]["weights"] == expected


def style_of(run: str) -> str:
    return run.partition(" ")[0]


def started(strategy: str, steps: int, bad: tuple[int, ...], *runs: str, **env: str) -> Any:
    command = [
        *fresh.python(),
        "-m",
        "tests.tensorflow.loss_scaling.optimizers.tf_keras_replicas",
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
        outputs = [each.communicate(timeout=240) for each in processes]
    finally:
        for each in processes:
            each.kill()
    for process, (_, errors) in zip(processes, outputs, strict=True):
        assert process.returncode == 0, errors[-4000:]
    return [json.loads(out.splitlines()[-1]) for out, _ in outputs]
