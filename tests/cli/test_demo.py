"""The demonstration: what it prints, what it writes, and what it says of the machine."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mixdown import cli
from mixdown.cli.demo import DemoResult, _comparison
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


def test_demo_trains_twice_and_writes_the_report(tmp_path: Path) -> None:
    data = small(tmp_path / "data.npz")
    command = [sys.executable, "-m", "mixdown", "demo", "--data", str(data), "--epochs", "2", "--html", "page.html"]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - our own interpreter
    assert done.returncode == 0, done.stderr[-2000:]
    low, ops, casts = map(int, re.search(r"(\d+) of (\d+) float32 ops .* with (\d+) casts", done.stdout).groups())  # type: ignore[union-attr]
    assert 0 < low < ops
    assert casts > 0
    assert done.stdout.count("Epoch 2/2") == 2
    assert re.search(r"accuracy on new images +[01]\.\d+ +[01]\.\d+\n", done.stdout)
    assert re.search(r"Skipped steps: \d+ of 8", done.stdout)
    assert re.search(r"Loss scale, from step: 0: 32768", done.stdout)
    assert "page.html" in done.stdout
    assert "multi_step_on_iterator" in (tmp_path / "page.html").read_text("utf-8")


FULL = DemoResult(0.98, 0.010, 50_000_000, 100, "there is no GPU")
MIXED = replace(
    FULL, accuracy=0.97, step_seconds=0.025, ops=70, low_ops=25, casts=13, timeline=((0, 32768.0),), skipped=(3, 40)
)
SENTENCES = {
    "ops": (MIXED, "25 of 70 float32 ops of a training step ran in float16, with 13 casts."),
    "skips": (MIXED, "Skipped steps: 2 of 100 (steps 3, 40)."),
    "no skips": (replace(MIXED, skipped=()), "Skipped steps: 0 of 100."),
    "many skips": (replace(MIXED, skipped=tuple(range(20))), "(steps 0, 1, 2, 3, 4, 5, 6, 7, ...)"),
    "scale": (replace(MIXED, timeline=((0, 8.0), (9, 16.0))), "Loss scale, from step: 0: 8, 9: 16."),
    "long scale": (
        replace(MIXED, timeline=tuple((step, 8.0 if step % 2 else 16.0) for step in range(10))),
        "0: 16, 1: 8, 2: 16, 3: 8, 4: 16, 5: 8, 6: 16, ..., 9: 8 (9 changes, 5 down).",
    ),
    "time": (MIXED, "A mixed step took 2.50 times as long as one in float32."),
    "memory": (replace(MIXED, memory=60_000_000), "It took more memory, too"),
    "no GPU": (MIXED, "What it cannot show is speed: there is no GPU"),
    "a GPU": (replace(MIXED, closed_gate=""), "This machine has a GPU with Tensor Cores."),
}


@pytest.mark.parametrize("case", SENTENCES)
def test_comparison_says(case: str) -> None:
    outcome, sentence = SENTENCES[case]
    assert sentence in "\n".join(_comparison(FULL, outcome, "float16"))


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
