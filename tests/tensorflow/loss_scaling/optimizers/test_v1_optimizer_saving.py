"""Save at step k, restore in a new process, continue: the same bits as a run without interruption."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tests import fresh

from mixdown.tensorflow.loss_scaling.loss_scale import DynamicLossScale
from mixdown.tensorflow.loss_scaling.optimizers.v1 import MixedPrecisionLossScaleOptimizer

# Many of these tests hand in gradients of their own making, of no loss at all.
pytestmark = pytest.mark.filterwarnings("ignore:Gradients were applied of a loss")

v1 = tf.compat.v1
SCRIPT = Path(__file__).with_name("v1_resume.py")


def process(directory: Path, first: int, last: int) -> Any:
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": str(SCRIPT.parents[4] / "src")}
    command = [*fresh.python(), str(SCRIPT), str(directory), str(first), str(last)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)  # noqa: S603 - our script
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The state after 40 steps without interruption, after 17 steps, and after 17 and 23 in a new process."""
    whole, parts = tmp_path_factory.mktemp("whole"), tmp_path_factory.mktemp("parts")
    return [process(whole, 0, 40), process(parts, 0, 17), process(parts, 17, 40)]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["checkpoint", "saver"])
def test_an_interrupted_run_continues_bit_for_bit(form: str, runs: list[Any]) -> None:
    expected, half, continued = (each[form] for each in runs)
    assert half != expected
    assert continued == expected
    assert "skipped_steps=6" in expected[-1]


def trained(optimizer: Any, w: tf.Variable) -> Any:
    for x in (1.0, np.nan, 2.0):
        gradient = tf.constant([x, 1.0])
        optimizer.apply_gradients([(gradient, w)])
    return optimizer


def test_a_checkpoint_keeps_the_offending_variables(tmp_path: Path) -> None:
    w = tf.Variable([1.0, 2.0], name="w")
    saved = trained(MixedPrecisionLossScaleOptimizer(v1.train.MomentumOptimizer(0.1, 0.9), "dynamic"), w)
    path = tf.train.Checkpoint(w=w, optimizer=saved).save(str(tmp_path / "c"))
    fresh = MixedPrecisionLossScaleOptimizer(v1.train.MomentumOptimizer(0.1, 0.9), "dynamic")
    tf.train.Checkpoint(w=w, optimizer=fresh).restore(path)
    assert fresh.offending_variables == [("variable 0", "NaN")]
    fresh.apply_gradients([(tf.constant([0.0, 0.0]), w)])
    assert fresh.offending_variables == [("w:0", "NaN")]
    assert (fresh.steps, fresh.skipped_steps, fresh.last_skipped_step) == (4, 1, 1)


def test_a_checkpoint_of_tensorflows_own_class_can_be_read(tmp_path: Path) -> None:
    w = tf.Variable([1.0, 2.0])
    inner = v1.train.MomentumOptimizer(0.1, 0.9)
    scale = v1.mixed_precision.DynamicLossScale(64.0)
    theirs = trained(v1.mixed_precision.MixedPrecisionLossScaleOptimizer(inner, scale), w)
    path = tf.train.Checkpoint(w=w, optimizer=theirs).save(str(tmp_path / "c"))
    v = tf.Variable([0.0, 0.0])
    ours = MixedPrecisionLossScaleOptimizer(v1.train.MomentumOptimizer(0.1, 0.9), DynamicLossScale(64.0))
    tf.train.Checkpoint(w=v, optimizer=ours).restore(path).expect_partial()
    ours.apply_gradients([(tf.constant([0.0, 0.0]), v)])
    theirs.apply_gradients([(tf.constant([0.0, 0.0]), w)])
    assert v.numpy().tolist() == w.numpy().tolist()
    assert float(ours.loss_scale()) == float(scale()) == 32.0
