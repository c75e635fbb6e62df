"""The README's own words, held to what happens."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")


def run(script: str, cwd: Path) -> str:
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_the_report_in_the_readme_is_what_the_demo_prints(tmp_path: Path) -> None:
    printed = run((ROOT / "examples" / "rewrite_graph.py").read_text("utf-8"), tmp_path)
    shown = re.search(r"```\n(\d+ of .*?)```", README, re.DOTALL)
    assert shown is not None
    assert shown[1] in printed
    assert (tmp_path / "mixdown-report.html").is_file()


def test_the_first_code_block_trains(tmp_path: Path) -> None:
    block = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert block is not None
    setting = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "import numpy as np, tensorflow as tf\n"
        "model = tf.keras.Sequential([tf.keras.layers.Dense(3, activation='softmax')])\n"
        "x_train, y_train = np.ones([8, 4], 'float32'), np.zeros([8], 'int32')\n"
    )
    assert "loss" in run(setting + block[1] + "\nprint('loss', model.evaluate(x_train, y_train, verbose=0))", tmp_path)
