"""A process that dies while it runs tests, for real: its tests are run again, and a run always ends."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

QUIET = "import pytest\n@pytest.mark.parametrize('number', range({}))\ndef test_fine(number): pass\n"

FATAL = """
import os, signal
from pathlib import Path
import pytest

@pytest.mark.parametrize("number", range(8))
def test_some(number):
    if number == {at} and {condition}:
        Path("died").touch()
        os.kill(os.getpid(), signal.SIGSEGV)
"""


def run(folder: Path, condition: str, at: int, files: int) -> tuple[int, str]:
    """Run a suite of several files, one of which ends its process; returns the exit code and the last lines."""
    (folder / "conftest.py").write_text((ROOT / "tests/conftest.py").read_text("utf-8"), "utf-8")
    (folder / "test_fatal.py").write_text(FATAL.format(at=at, condition=condition), "utf-8")
    for number in range(files):
        (folder / f"test_{number}.py").write_text(QUIET.format(number + 1), "utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n",
        "2",
        "--dist",
        "loadfile",
        "-p",
        "no:cacheprovider",
        "-q",
        str(folder),
    ]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "PYTHONFAULTHANDLER": ""}
    done = subprocess.run(  # noqa: S603 - our own suite
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    return done.returncode, done.stdout[-2000:]


@pytest.mark.parametrize(("at", "files"), [(0, 1), (7, 12)])
def test_tests_of_a_process_that_died_are_run_again(tmp_path: Path, at: int, files: int) -> None:
    code, told = run(tmp_path, "not Path('died').exists()", at, files)
    assert f"{8 + sum(range(files + 1))} passed, 1 run again" in told
    assert f"died during test_fatal.py::test_some[{at}]; what it had not finished was run again" in told
    assert code == 0


def test_a_test_that_ends_two_processes_fails_and_the_others_are_run(tmp_path: Path) -> None:
    code, told = run(tmp_path, "True", 3, 12)
    assert f"1 failed, {7 + sum(range(13))} passed, 1 run again" in told
    assert code == 1
