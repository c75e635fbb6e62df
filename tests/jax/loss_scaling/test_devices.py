"""All devices take a step or none does: Inf on one of eight, for a thousand steps."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.jax.loss_scaling import eight_devices

SKIPPED = int((~np.isfinite(eight_devices.batches()).all(axis=1)).sum())


@pytest.fixture(scope="module")
def printed() -> list[str]:
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    command = [sys.executable, str(Path(eight_devices.__file__))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - our own interpreter
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


@pytest.mark.parametrize("program", ["with_shard_map", "with_pmap", "with_sharded_arrays"])
def test_inf_on_one_of_eight_devices_skips_the_step_on_all(program: str, printed: list[str]) -> None:
    assert f"{program}: 1000 steps, {SKIPPED} skipped, 0 wrong" in printed
    assert SKIPPED > 800


def test_devices_that_do_not_agree_are_noticed(printed: list[str]) -> None:
    (line,) = [each for each in printed if each.startswith("alone")]
    assert line == "alone: 1000 steps, 1000 wrong"
