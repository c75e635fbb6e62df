"""The demonstration: what it prints, what it writes, and what it says of the machine."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mixdown import cli
from mixdown.cli.demo import _closing, _predicted, _remembered, _rescued
from mixdown.cli.demo_children import results
from mixdown.cli.demo_data import load
from mixdown.errors import MixdownError

rng = np.random.default_rng(3)


def small(path: Path) -> Path:
    """Two kinds of images, told apart by their left or right half."""
    labels = rng.integers(0, 2, 320)
    images = rng.integers(0, 80, [320, 8, 8])
    images[labels == 1, :, 4:] += 120
    np.savez(path, x_train=images[:256], y_train=labels[:256], x_test=images[256:], y_test=labels[256:])
    return path


def start(*arguments: str, folder: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-u", "-m", "mixdown", "demo", *arguments]
    return subprocess.Popen(  # noqa: S603 - our own interpreter
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


@pytest.mark.slow
def test_demo_shows_every_part_and_writes_the_report(tmp_path: Path) -> None:
    with start("--epochs", "2", "--html", "page.html", folder=tmp_path) as running:
        printed, complaints = running.communicate(timeout=600)
    assert running.returncode == 0, complaints[-2000:]
    table = re.findall(r"^  (.+?)  +(clean|bad) +(finite|NaN) +([01]\.\d+)$", printed, re.MULTILINE)
    assert [row[:3] for row in table] == [
        ("float32", "clean", "finite"),
        ("mixdown float16", "clean", "finite"),
        ("float32", "bad", "NaN"),
        ("Keras mixed_float16", "bad", "NaN"),
        ("mixdown float16", "bad", "finite"),
    ]
    assert "mixdown skipped 2 of 44 steps (steps 10, 30; first seen in " in printed
    assert float(re.search(r"MB in float16, (0\.\d+) of it", printed)[1]) < 0.9  # type: ignore[index]
    assert re.search(r"^  kept (bfloat16.*: 0\.\d\d of float32|float32: nothing was faster)\.$", printed, re.MULTILINE)
    assert re.findall(r"^  (\w+) +predicted: ", printed, re.MULTILINE) == ["T4", "A100", "H100"]
    assert "one_step_on_data" in (tmp_path / "page.html").read_text("utf-8")


MOMENTS = {
    "at once": ("1. Bad batches", 0.0),
    "loading": pytest.param(("1. Bad batches", 2.0), marks=pytest.mark.slow),
    "compiling": pytest.param(("1. Bad batches", 6.0), marks=pytest.mark.slow),
    "training": pytest.param(("float32, clean batches", 0.5), marks=pytest.mark.slow),
    "replicas": pytest.param(("mixdown, float16, clean batches", 3.0), marks=pytest.mark.slow),
}


@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS)
def test_an_interrupt_ends_it_quietly_with_130(tmp_path: Path, moment: tuple[str, float]) -> None:
    line, later = moment
    with start("--epochs", "2", folder=tmp_path) as running:
        assert running.stdout
        assert any(line in printed for printed in running.stdout)
        time.sleep(later)
        os.killpg(running.pid, signal.SIGINT)  # as a terminal does: to the parent and to its children
        complaints = running.communicate(timeout=60)[1]
    assert running.returncode == 130
    assert complaints == ""
    for _ in range(100):  # until the system has removed the children
        if not alive(running.pid):
            break
        time.sleep(0.05)
    assert not alive(running.pid)


def alive(session: int) -> bool:
    """Whether a process of this session is left, copies of children included."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            state, _, _, of = status.read_text("utf-8").rpartition(")")[2].split()[:4]
            if int(of) == session and state != "Z":
                return True
    return False


def test_missing_scikit_learn_is_told_before_tensorflow_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "sklearn").mkdir()
    (tmp_path / "sklearn" / "__init__.py").write_text("raise ImportError", "utf-8")
    script = (
        "import sys; from mixdown import cli; code = cli.main(['demo']); "
        "print('tensorflow' in sys.modules, code); sys.exit(code)"
    )
    paths = os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", "")))
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "False 2\n"
    assert "pip install 'mixdown[demo]'" in done.stderr


def run(
    how: str, accuracy: float, *, bad: bool = False, finite: bool = True, skips: Sequence[int] = ()
) -> dict[str, Any]:
    return {
        "how": how,
        "bad": bad,
        "finite": finite,
        "accuracy": accuracy,
        "steps": 100,
        "skips": [[step, "dense/kernel"] for step in skips],
    }


def rescued(*, keras_finite: bool = False, skips: Sequence[int] = (3, 40)) -> str:
    runs = [
        run("float32", 0.98),
        run("float16", 0.97),
        run("float32", 0.1, bad=True, finite=False),
        run("mixed_float16", 0.1, bad=True, finite=keras_finite),
        run("float16", 0.985, bad=True, skips=skips),
    ]
    return "\n".join(_rescued(runs, "float16"))


PREDICTED = [{"device": "T4", "share": "98 %", "bytes": 60, "float32_bytes": 100, "float32": 0.004, "mixed": 0.002}]
SENTENCES = {
    "skips": (rescued(), "mixdown skipped 2 of 100 steps (steps 3, 40; first seen in dense/kernel)."),
    "no skips": (rescued(skips=()), "mixdown skipped 0 of 100 steps."),
    "many skips": (rescued(skips=range(20)), "(steps 0, 1, 2, 3, 4, 5, ...; first seen in dense/kernel)"),
    "lost": (rescued(), "Lost for good: float32 and Keras mixed_float16."),
    "only one lost": (rescued(keras_finite=True), "Lost for good: float32. The"),
    "accuracy": (rescued(), "mixdown -0.010, with bad batches +0.005."),
    "memory": ("\n".join(_remembered(10**9, 6 * 10**8, "float16")), "600 MB in float16, 0.60 of"),
    "no memory": ("\n".join(_remembered(0, 0, "float16")), "does not say how much memory"),
    "predicted": ("\n".join(_predicted(PREDICTED)), "predicted: float32 4.00 ms, mixed 2.00 ms a step, 2.00 times as"),
    "bytes": (
        "\n".join(_predicted(PREDICTED)),
        "98 % of the matrix arithmetic in 16 bits; 0.60 of the bytes of float32.",
    ),
    "no GPU": ("\n".join(_closing("there is no GPU", "float16")), "gains little: there is no GPU"),
}


@pytest.mark.parametrize("case", SENTENCES)
def test_the_demo_says(case: str) -> None:
    printed, sentence = SENTENCES[case]
    assert sentence in printed


def test_nothing_is_said_against_a_machine_that_can_show_speed() -> None:
    assert list(_closing("", "float16")) == []


def test_a_part_that_fails_is_told_with_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(MixdownError, match=r"(?s)^A part of the demonstration failed:.*There is no data set 'mnits'"):
        list(results("mnits", "1", "float16", str(tmp_path / "page.html")))


COPY = """
import sys
from mixdown.cli.demo_children import in_copy
results = [in_copy(lambda: {{"modules": len(sys.modules)}}), in_copy(lambda: {work})]
print([result() for result in results] == [{{"modules": len(sys.modules)}}, 3])
"""


def test_a_copy_has_what_is_loaded_and_gives_its_result_back() -> None:
    assert copied("1 + 2").stdout == "True\n"


def test_work_that_fails_in_a_copy_fails_here_with_its_words() -> None:
    done = copied("1 / 0")
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr


def copied(work: str) -> "subprocess.CompletedProcess[str]":
    """Run a process that copies itself; its stdin stays open, as the demonstration's does."""
    command, pipe = [sys.executable, "-c", COPY.format(work=work)], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as running:  # noqa: S603 - our own interpreter
        assert running.stdout
        assert running.stderr
        printed, complaints = running.stdout.read(), running.stderr.read()
        code = running.wait(timeout=60)
    return subprocess.CompletedProcess(command, code, printed, complaints)


def test_digits_are_split_into_images_with_one_channel() -> None:
    data = load("digits")
    assert [part.shape for part in data] == [(1438, 8, 8, 1), (1438,), (359, 8, 8, 1), (359,)]
    assert (data.x_train.min(), data.x_train.max(), data.classes) == (0.0, 1.0, 10)


def test_files_are_read(tmp_path: Path) -> None:
    data = load(str(small(tmp_path / "data.npz")))
    assert data.x_train.shape == (256, 8, 8, 1)
    assert data.x_train.max() == 1.0
    assert data.classes == 2


def test_unknown_data_is_refused() -> None:
    with pytest.raises(MixdownError, match="There is no data set 'mnits': give digits, cifar10, fashion-mnist, or"):
        load("mnits")


def test_file_without_the_arrays_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=np.ones(3))
    with pytest.raises(MixdownError, match="with the arrays x_train, y_train, x_test, y_test"):
        load(str(tmp_path / "data.npz"))


def test_missing_scikit_learn_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(MixdownError, match=r"pip install 'mixdown\[demo\]'"):
        load("digits")


def test_no_epoch_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["demo", "--epochs", "0"]) == 2
    assert "--epochs must be at least 1, got 0." in capsys.readouterr().err
