"""Distribution strategies, each run in processes of its own: see twins_replicas.py and twins_servers.py."""

import json
import math
import os
import socket
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import fresh
from tests.tensorflow.calls.twins_replicas import FEATURES, RATE, STEPS, TARGETS, WEIGHTS

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def mirrored() -> Any:
    """One process for all loops: each may have one strategy, and starting TensorFlow takes most of the time."""
    return answer(started("twins_replicas", "mirrored", "custom", "keras", "normalized", "tf_keras", "broken"))


@pytest.mark.parametrize("loop", ["custom", "keras", "tf_keras"])
def test_every_product_on_every_mirrored_replica_is_low(loop: str, mirrored: Any) -> None:
    ran = mirrored[loop]
    assert ran["products"] == ["float16"] * 4  # forward and backward, on two replicas
    one, other = ran["weights"]
    assert one == other
    np.testing.assert_allclose(one, regression(), rtol=2e-2)


def test_normalization_on_every_mirrored_replica_is_one_low_op(mirrored: Any) -> None:
    forward, backward, spelled_out = mirrored["normalized"]["norms"]
    assert forward == backward == ["float16"] * 2
    assert [dtype for dtype in spelled_out if dtype != "float32"] == []  # one of the loss is left, on each replica
    averages = np.array(mirrored["normalized"]["weights"])  # each replica has its own
    assert averages.shape == (2, 4)
    assert ((averages > 0.9) & (averages < 1.0)).all()  # they began with 1, and the values vary less


def test_an_error_on_a_mirrored_replica_names_the_user_function_and_never_the_twin(mirrored: Any) -> None:
    for text in mirrored["broken"]:  # without mixdown and with it; which replica fails first is a matter of chance
        assert "[Op:__inference_user_function_" in text
        assert "on a replica : Tensor had Inf values" in text
        assert "twins_replicas.py" in text
        assert "in user_step" in text
        assert "float16" not in text


@pytest.fixture(scope="module")
def workers() -> Any:
    """Two processes that work together on all loops."""
    cluster = {"worker": addresses(2)}
    configurations = [json.dumps({"cluster": cluster, "task": {"type": "worker", "index": i}}) for i in range(2)]
    started_workers = [started("twins_replicas", "workers", "custom", "tf_keras", TF_CONFIG=c) for c in configurations]
    return [answer(worker) for worker in started_workers]


@pytest.mark.parametrize("loop", ["custom", "tf_keras"])
def test_every_product_on_two_workers_is_low(loop: str, workers: Any) -> None:
    first, second = (worker[loop] for worker in workers)
    assert first["products"] == second["products"] == ["float16"] * 2
    assert first["weights"] == second["weights"]
    np.testing.assert_allclose(first["weights"][0], regression(), rtol=2e-2)


def test_parameter_servers_and_their_workers_get_the_twins() -> None:
    cluster = json.dumps({job: addresses(1) for job in ("chief", "worker", "ps")})
    with ExitStack() as stack:
        for task in ("worker", "ps"):
            server = stack.enter_context(started("twins_servers", task, cluster))
            stack.callback(server.terminate)
        ran = answer(started("twins_servers", "chief", cluster))
    assert ran["plain"] == ran["after"] == [90_000.0] * 2  # scheduled by the coordinator, and on a remote device
    assert ran["mixed"] == [math.inf] * 2
    assert ran["losses"] == [0.5, 0.375, 0.25]
    assert ran["weights"] == 0.25
    assert len([twin for twin in ran["twins"] if "square" in twin]) == 2


def regression() -> Any:
    """What every loop computes, by NumPy."""
    weights = WEIGHTS.astype("float64")
    for step in range(STEPS):
        part = slice(8 * (step % 2), 8 * (step % 2) + 8)
        weights -= RATE * 2.0 / 8.0 * FEATURES[part].T @ (FEATURES[part] @ weights - TARGETS[part])
    return weights


def started(script: str, *arguments: str, **env: str) -> Any:
    return subprocess.Popen(  # noqa: S603 - our own script
        [*fresh.python(), "-W", "ignore", "-m", f"tests.tensorflow.calls.{script}", *arguments],
        cwd=ROOT,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def answer(process: Any) -> Any:
    """The last line a process printed."""
    with process:
        printed, complaint = process.communicate(timeout=300)
    assert process.returncode == 0, complaint
    return json.loads(printed.splitlines()[-1])


def addresses(count: int) -> list[str]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
