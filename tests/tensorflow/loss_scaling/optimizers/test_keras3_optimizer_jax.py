"""The Keras 3 loss-scale optimizer on Keras's JAX backend; the checks are in keras3_on_jax.py."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.skipif(find_spec("jax") is None, reason="jax is not installed: pip install jax to run this one")
def test_the_optimizer_works_on_the_jax_backend() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "tests.tensorflow.loss_scaling.optimizers.keras3_on_jax"],
        cwd=Path(__file__).parents[4],
        env={**os.environ, "KERAS_BACKEND": "jax", "TF_CPP_MIN_LOG_LEVEL": "2"},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    assert run.stdout.splitlines()[-1] == "all held on jax"
