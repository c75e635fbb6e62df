"""What goes wrong in the user's code inside a twin is the user's error, unchanged; nothing else has happened."""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.reliability.conftest import Tally
from tests.reliability.fault_training import HOSTS
from tests.reliability.fault_user_code import GUARDS, check_that_float32_gives_it_too, check_that_nothing_changes

ROOT = Path(__file__).parents[2]
QUICK = [*((host, "py_function") for host in HOSTS), *(("v1", kind) for kind in GUARDS if kind != "py_function")]
SLOW = [(host, kind) for host in HOSTS for kind in GUARDS if (host, kind) not in QUICK]


@functools.cache
def out_of_memory(*hosts: str) -> dict[str, str]:
    """What goes wrong when memory runs out, in a process whose allocator says so at once."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.reliability.fault_user_code", *hosts]
    environment = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": "0", "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - our own script
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize(("host", "kind"), [*QUICK, *(pytest.param(*each, marks=pytest.mark.slow) for each in SLOW)])
def test_an_error_in_user_code_changes_nothing(host: str, kind: str, tally: Tally) -> None:
    if kind == "memory":
        hosts = ["v1"] if host == "v1" else [each for each in HOSTS if each != "v1"]
        assert out_of_memory(*hosts)[host] == ""
    else:
        check_that_nothing_changes(host, kind)
    tally("faults injected")


@pytest.mark.parametrize("kind", GUARDS)
def test_the_error_is_the_one_that_float32_gives(kind: str) -> None:
    if kind == "memory":
        assert out_of_memory("v1")["float32"] == ""
    else:
        check_that_float32_gives_it_too(kind)


def test_a_function_that_ran_out_of_memory_still_runs_as_its_twin() -> None:
    assert out_of_memory("v1")["twin"] == ""
