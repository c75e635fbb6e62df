"""What a command does before TensorFlow is loaded, and what is seen while it is."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mixdown.cli.loading import VARIABLE, own_stderr, quiet_start

WITHOUT = "import sys; sys.modules['tensorflow'] = None\nfrom mixdown.cli import main\nsys.exit(main(sys.argv[1:]))"
"""A command line in a process that cannot import TensorFlow."""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name in ("graph.pb", "text.keras", "text.h5", "model.weights.h5", "there"):
        (tmp_path / name).write_text("no model", "utf-8")
    (tmp_path / "empty").mkdir()
    return tmp_path


REFUSED = {
    "no file": (
        "explain nowhere.pb",
        "There is no model at 'nowhere.pb': give a SavedModel's folder, or a .keras, .h5",
    ),
    "no model": ("convert nowhere there2", "There is no model at 'nowhere'"),
    "no SavedModel": ("explain empty", "There is no SavedModel in 'empty': it has neither saved_model.pb"),
    "no zip": ("explain text.keras", "'text.keras' is no Keras model: what is in it is not a .keras file."),
    "no HDF5": ("convert text.h5 folder", "'text.h5' is no Keras model: what is in it is not a .h5 file."),
    "weights": ("explain model.weights.h5", "'model.weights.h5' holds weights without a model"),
    "taken": ("convert graph.pb there", "'there' exists already. Choose another name, or say overwrite"),
    "inside": ("convert graph.pb graph.pb", "'graph.pb' lies in the model to convert"),
    "a Keras file": ("convert graph.pb new.keras", "'new.keras' names a Keras file"),
    "no page": ("explain graph.pb --html page.htm", "--html writes a file that ends in .html"),
    "no folder": ("explain graph.pb --html no/page.html", "'no/page.html' cannot be written: there is no folder 'no'."),
    "no policy": ("explain graph.pb --devices G-P-U", "Unknown devices"),
    "no script": ("run nowhere.py", "There is no script 'nowhere.py'."),
    "no report": ("diff nowhere.json there", "'nowhere.json' cannot be read"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_file_is_refused_without_tensorflow(case: str, files: Path) -> None:
    arguments, message = REFUSED[case]
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", WITHOUT, *arguments.split()], capture_output=True, text=True, check=False, cwd=files
    )
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert message in done.stderr


def chatter() -> None:
    os.write(2, b"I0000 cudart_stub.cc: noise\n")
    sys.stderr.write("mixdown: a line of Python's\n")
    sys.stderr.flush()


def test_what_native_code_says_at_the_start_is_dropped(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(sys, "stderr", os.fdopen(2, "w", closefd=False))
    with quiet_start():
        chatter()
        assert os.environ[VARIABLE] == "2"
    chatter()
    said = capfd.readouterr().err.splitlines()
    assert said == ["mixdown: a line of Python's", "I0000 cudart_stub.cc: noise", "mixdown: a line of Python's"]


def test_it_is_shown_to_whom_asks_for_it(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv(VARIABLE, "0")
    with quiet_start():
        chatter()
    assert "noise" in capfd.readouterr().err


def test_it_is_shown_if_loading_fails(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv(VARIABLE, "2")

    def load() -> None:
        with quiet_start():
            chatter()
            raise ImportError("no such library")

    with pytest.raises(ImportError):
        load()
    assert "noise" in capfd.readouterr().err


def test_a_stderr_that_is_another_stays(capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.stderr
    with own_stderr():
        assert sys.stderr is before
    assert capsys.readouterr().err == ""


INTERRUPTED = """
import os, signal, sys, types
from mixdown.cli import loading, main
class Loading:  # stands where TensorFlow would be found, and is interrupted while it loads
    def find_spec(self, name, *_):
        if name == "tensorflow":
            os.kill(os.getpid(), signal.SIGINT)
            raise SystemExit("not reached")
sys.meta_path.insert(0, Loading())
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("command", ["explain graph.pb", "convert graph.pb converted.pb"])
def test_ctrl_c_while_tensorflow_loads_ends_at_once_and_quietly(command: str, files: Path) -> None:
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", INTERRUPTED, *command.split()], capture_output=True, text=True, check=False, cwd=files
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_the_signal_handler_is_put_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with quiet_start():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before
