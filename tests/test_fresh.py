"""`tests/fresh.py` does what a new interpreter does, for all that the other tests rely on."""

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from tests import fresh


def run(*arguments: str, **settings: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*fresh.python(), *arguments], capture_output=True, text=True, check=False, **settings)  # noqa: S603 - our own script


def test_code_gets_arguments_folder_environment_and_input(tmp_path: Path) -> None:
    script = "import os, sys; print(sys.argv, os.getcwd(), os.environ['WORD'], sys.stdin.read())"
    done = run("-c", script, "one", "two", cwd=tmp_path, env={"WORD": "here"}, input="told")
    assert (done.returncode, done.stdout) == (0, f"['-c', 'one', 'two'] {tmp_path} here told\n"), done.stderr


def test_modules_and_scripts_run_as_main_and_find_what_lies_around_them(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("NAME = 'other'\n", "utf-8")
    script = tmp_path / "script.py"
    script.write_text("import sys, other\nprint(__name__, other.NAME, sys.argv[1:])\n", "utf-8")
    expected = "__main__ other ['x']\n"
    assert run(str(script), "x").stdout == expected
    assert run("-m", "script", "x", cwd=tmp_path).stdout == expected
    assert run("-W", "ignore", "-m", "script", "x", env={**os.environ, "PYTHONPATH": str(tmp_path)}).stdout == expected


@pytest.mark.parametrize(
    ("script", "code", "said"),
    [
        ("", 0, ""),
        ("import sys; sys.exit(3)", 3, ""),
        ("import sys; sys.exit('no')", 1, "no\n"),
        ("1 / 0", 1, "ZeroDivisionError: division by zero\n"),
        ("import os; os.kill(os.getpid(), 9)", -9, ""),
        ("import atexit, sys; atexit.register(sys.stderr.write, 'bye')", 0, "bye"),
        ("import warnings; warnings.warn('look', ResourceWarning)", 0, ""),
        ("import warnings; warnings.warn('look')", 0, "UserWarning: look\n"),
    ],
)
def test_the_end_is_that_of_python(script: str, code: int, said: str) -> None:
    done = run("-c", script)
    assert done.returncode == code, done.stderr
    assert done.stderr.endswith(said)
    assert bool(done.stderr) == bool(said)


def test_tensorflow_is_imported_but_has_not_started_and_mixdown_is_not() -> None:
    script = """
import os, sys
print("tensorflow" in sys.modules, "mixdown" in sys.modules, len(os.listdir("/proc/self/task")))
import tensorflow as tf
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
print(len(tf.config.list_logical_devices("CPU")))
"""
    assert run("-c", script).stdout == "True False 1\n2\n"


def test_whoever_is_killed_takes_its_copy_along() -> None:
    script = "import os, time; print(os.getpid(), flush=True); time.sleep(100)"
    command = [*fresh.python(), "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own script
        assert process.stdout is not None
        copy = Path("/proc") / process.stdout.readline().strip()
        assert copy.exists()
        process.kill()
        assert process.wait() == -signal.SIGKILL
        assert process.stdout.read() == ""  # which ends when the copy does
    deadline = time.monotonic() + 10
    while copy.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not copy.exists()
