"""`.ci/run` installs a browser where it is missing and may be, goes on if that fails, and then runs `make test`."""

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.conftest import skipped

SCRIPT = Path(__file__).parents[2] / ".ci" / "run"
INSTALL = "apt-get install -qq -y --no-install-recommends chromium chromium-driver"


def called(folder: Path, *, root: bool, there: tuple[str, ...], failing: tuple[str, ...] = ()) -> tuple[int, list[str]]:
    """Run the script where only some commands exist; returns its exit code and what it called, in order."""
    log = folder / "log"
    log.touch()
    programs = {name: f'echo "{name} $@" >> {log}; exit {int(name in failing)}' for name in (*there, "make")}
    programs["id"] = f"echo {0 if root else 1000}"
    for name, text in programs.items():
        (folder / name).write_text(f"#!{shutil.which('bash')}\n{text}\n", "utf-8")
        (folder / name).chmod(0o755)
    for name in ("bash", "dirname", "timeout"):
        (folder / name).symlink_to(str(shutil.which(name)))
    done = subprocess.run([folder / "bash", SCRIPT], env={"PATH": str(folder)}, check=False, capture_output=True)  # noqa: S603 - our own script
    return done.returncode, log.read_text("utf-8").splitlines()


@pytest.mark.parametrize("there", [("apt-get",), ("apt-get", "chromium"), ("apt-get", "chromedriver")])
def test_a_missing_browser_is_installed(there: tuple[str, ...], tmp_path: Path) -> None:
    assert called(tmp_path, root=True, there=there) == (0, ["apt-get update -qq", INSTALL, "make test"])


@pytest.mark.parametrize(
    ("root", "there"), [(True, ("apt-get", "chromium", "chromedriver")), (False, ("apt-get",)), (True, ())]
)
def test_nothing_is_installed_where_it_is_needless_or_not_allowed(
    *, root: bool, there: tuple[str, ...], tmp_path: Path
) -> None:
    assert called(tmp_path, root=root, there=there) == (0, ["make test"])


def test_an_install_that_fails_fails_nothing(tmp_path: Path) -> None:
    assert called(tmp_path, root=True, there=("apt-get",), failing=("apt-get",)) == (
        0,
        ["apt-get update -qq", "make test"],
    )


def test_tests_that_fail_fail_the_check(tmp_path: Path) -> None:
    assert called(tmp_path, root=False, there=(), failing=("make",)) == (1, ["make test"])


def test_what_is_skipped_is_said_in_one_line() -> None:
    reasons = ["needs Sphinx: pip install sphinx", *["needs Chromium: apt-get install chromium"] * 31]
    assert skipped(reasons) == (
        "skipped: 31 tests: needs Chromium: apt-get install chromium; 1 test: needs Sphinx: pip install sphinx"
    )
