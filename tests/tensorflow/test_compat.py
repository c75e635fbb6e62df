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
from tensorflow.train.experimental import enable_mixed_precision_graph_rewrite
from tensorflow.compat.v1.train.experimental import enable_mixed_precision_graph_rewrite as enable_v1
from tensorflow.compat.v2.train.experimental import enable_mixed_precision_graph_rewrite as enable_v2

assert enable_mixed_precision_graph_rewrite is enable_v1 is enable_v2
assert enable_v1 is tf.train.experimental.enable_mixed_precision_graph_rewrite
model = tf.keras.models.Sequential([
  tf.keras.layers.Dense(8, activation="relu"),
  tf.keras.layers.Dense(3, activation="softmax"),
])
opt = tf.keras.optimizers.SGD()
opt = enable_mixed_precision_graph_rewrite(opt)
model.compile(loss="categorical_crossentropy", optimizer=opt, metrics=["accuracy"])
x = np.random.default_rng(0).normal(size=(32, 4)).astype("float32")
y = np.eye(3, dtype="float32")[np.arange(32) % 3]
model.fit(x, y, batch_size=8, epochs=1, verbose=0)
large = tf.fill([1, 1], 300.0)
print("product", float(tf.function(tf.matmul)(large, large)[0, 0]), "steps", int(opt.iterations), *sys.argv[1:])
"""

IMPORTS = """
import sys
import mixdown
{early}
import tensorflow
mixdown.compat.install()
wanted = mixdown.enable_mixed_precision_graph_rewrite

from tensorflow.train.experimental import enable_mixed_precision_graph_rewrite as first
from tensorflow.compat.v1.train.experimental import enable_mixed_precision_graph_rewrite as second
from tensorflow.compat.v2.train.experimental import enable_mixed_precision_graph_rewrite as third
from tensorflow.compat.v1.mixed_precision import enable_mixed_precision_graph_rewrite as fourth
assert first is second is third is fourth is wanted

import tensorflow.train.experimental as module
from tensorflow.train import experimental
from tensorflow.mixed_precision.experimental import DynamicLossScale
from tensorflow.keras.mixed_precision.experimental import LossScaleOptimizer
assert module.FixedLossScale is experimental.FixedLossScale is mixdown.FixedLossScale
assert (DynamicLossScale, LossScaleOptimizer) == (mixdown.DynamicLossScale, mixdown.LossScaleOptimizer)

import tensorflow.compat.v1 as tf1
import tensorflow.compat.v2 as tf2
homes = tensorflow, tf1, tf2, tensorflow.compat.v1, tensorflow.compat.v2, tf2.compat.v1
assert all(home.train.experimental.enable_mixed_precision_graph_rewrite is wanted for home in homes)

mixdown.compat.uninstall()
assert not hasattr(tensorflow, "mixed_precision")
assert not any("mixed_precision.experimental" in name for name in sys.modules if "_api" not in name)
for home in (tensorflow, tf2, tensorflow.compat.v2):
    assert not hasattr(home.train.experimental, "enable_mixed_precision_graph_rewrite")
import tensorflow.train.experimental, tensorflow.compat.v1.train.experimental as own
assert not hasattr(sys.modules["tensorflow.train.experimental"], "enable_mixed_precision_graph_rewrite")
assert own.enable_mixed_precision_graph_rewrite.__module__.startswith("tensorflow.")
"""


@pytest.mark.parametrize(
    "early", ["", "from tensorflow.train.experimental import PythonState; import tensorflow.compat.v1.train"]
)
def test_documented_names_can_be_imported_until_they_are_uninstalled(early: str) -> None:
    code = IMPORTS.format(early=early)
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, env=_environment("0"), timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]


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
