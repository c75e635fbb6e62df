"""The one line works in `fit` on Keras's JAX backend, without TensorFlow; the checks are in fit_on_jax.py."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest


@pytest.mark.skipif(find_spec("jax") is None, reason="needs JAX: pip install 'mixdown[jax]'")
def test_the_one_line_works_in_fit_on_jax_without_tensorflow() -> None:
    script = Path(__file__).with_name("fit_on_jax.py")
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-P", "-W", "error::UserWarning:mixdown", str(script)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - our own interpreter
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.splitlines()[-1] == "all held on jax"
