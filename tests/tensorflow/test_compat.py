"""The documented names: back where the documents have them, and gone again without a trace."""

import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf

import mixdown
from mixdown import compat

OLD_SCRIPT = """
import sys
import numpy as np
import tensorflow as tf

model = tf.keras.models.Sequential([
  tf.keras.layers.Dense(8, activation="relu"),
  tf.keras.layers.Dense(3, activation="softmax"),
])
opt = tf.keras.optimizers.SGD()
opt = tf.train.experimental.enable_mixed_precision_graph_rewrite(opt)
model.compile(loss="categorical_crossentropy", optimizer=opt, metrics=["accuracy"])
x = np.random.default_rng(0).normal(size=(32, 4)).astype("float32")
y = np.eye(3, dtype="float32")[np.arange(32) % 3]
model.fit(x, y, batch_size=8, epochs=1, verbose=0)
large = tf.fill([1, 1], 300.0)
print("product", float(tf.function(tf.matmul)(large, large)[0, 0]), "steps", int(opt.iterations), *sys.argv[1:])
"""


def resolve(path: str) -> object:
    here: object = tf
    for part in path.split("."):
        here = getattr(here, part)
    return here


@pytest.mark.parametrize("home", compat.HOMES)
def test_documented_names_come_and_go(home: str) -> None:
    names = compat.HOMES[home]
    before = {name: _maybe(f"{home}.{name}") for name in names}
    compat.install()
    try:
        assert {name: resolve(f"{home}.{name}") for name in names} == {name: getattr(mixdown, name) for name in names}
    finally:
        compat.uninstall()
    assert {name: _maybe(f"{home}.{name}") for name in names} == before


def _maybe(path: str) -> object:
    try:
        return resolve(path)
    except AttributeError:
        return None


def test_installing_twice_is_undone_by_one_uninstall() -> None:
    compat.install()
    compat.install()
    compat.uninstall()
    assert _maybe("train.experimental.enable_mixed_precision_graph_rewrite") is None


@pytest.mark.parametrize("legacy", ["0", "1"], ids=["keras 3", "tf_keras"])
def test_run_runs_the_documented_example_as_it_was_written(tmp_path: Path, legacy: str) -> None:
    script = tmp_path / "old.py"
    script.write_text(OLD_SCRIPT, "utf-8")
    command = [sys.executable, "-m", "mixdown", "run", "--devices", "GPU,CPU", str(script), "--flag", "7"]
    done = subprocess.run(  # noqa: S603 - our own interpreter
        command, check=False, capture_output=True, text=True, env=_environment(legacy), timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["product", "inf", "steps", "4", "--flag", "7"]
    assert "MixdownWarning" not in done.stderr


def _environment(legacy: str) -> dict[str, str]:
    import os  # noqa: PLC0415 - used once

    return {**os.environ, "TF_USE_LEGACY_KERAS": legacy, "TF_CPP_MIN_LOG_LEVEL": "2"}
