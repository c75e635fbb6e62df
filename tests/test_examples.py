"""Every example runs, says what it promises, and is short enough to be read."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests import fresh

EXAMPLES = Path(__file__).parents[1] / "examples"
LONGEST = 80

# What each must print, and how it is started if not by its name alone.
PROMISES = {
    "keras_fit.py": ["skipped steps: ", "Every op with its reason: keras_fit.html"],
    "custom_loop.py": ["weights unchanged: True"],
    "v1_session.py": ["fetched by name as float32", "prediction (MatMul) is float16"],
    "mirrored_strategy.py": ["2 replicas, skipped steps: 3", "all weights finite: True"],
    "multi_worker.py": ["worker 0: error 0.00", "worker 1: error 0.00"],
    "old_script.py": ["accuracy: 0.9"],
    "custom_policy.py": ["the head stays in float32", "head/matmul (MatMul) is float32: a rule of the policy"],
    "tuned.py": [
        "accuracy while it was tuned and after: ",
        "kept ",
        "of float32  float32",
        "same choice from the file: True",
    ],
    "convert_and_serve.py": ["dtype=tf.float32, name='output_0'", "same answers: 100%"],
    "calibrate_and_bisect.py": ["kept because of their ranges:", "close to float32: True"],
    "xla.py": ["largest relative error: 0.00", "(MatMul) is float16"],
    "rewrite_graph.py": ["float32 ops run in float16", "Every op and every cast: mixdown-report.html"],
    "jax_plain.py": ["it fell: True", "1 now, weights unchanged: True", "('first', 'NaN')", "dot_general "],
    "jax_flax_nnx.py": ["accuracy above 0.9: True", "weights are float32", "dot_general (dot_general) is bfloat16"],
    "jax_flax_linen.py": ["(conv_general_dilated) is float16", "is finite: True", "80 steps, skipped steps: 0"],
    "jax_equinox.py": ["it fell: True", "(dot_general) in the forward pass made Inf", "jax_equinox.py:23, in loss_fn"],
    "jax_keras.py": ["it fell: True", "skipped steps: 0", "dot_general "],
}
QUICK = {"keras_fit.py", "v1_session.py", "jax_plain.py", "jax_keras.py"}
STARTED = {"old_script.py": ["-m", "mixdown", "run", "--devices", "GPU,CPU"]}


def run(name: str, folder: Path) -> str:
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu"}
    python = [sys.executable] if name.startswith("jax_") else fresh.python()  # no TensorFlow beside JAX
    command = [*python, *STARTED.get(name, []), str(EXAMPLES / name)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - our own interpreter
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in PROMISES]
)
def test_example_does_what_it_promises(name: str, tmp_path: Path) -> None:
    printed = run(name, tmp_path)
    assert [promise for promise in PROMISES[name] if promise not in printed] == [], printed


CELLS = """
import ast, json, sys, warnings
warnings.simplefilter("ignore")
space = {}
for cell in json.load(open(sys.argv[1]))["cells"]:
    if cell["cell_type"] != "code":
        continue
    tree = ast.parse("".join(cell["source"]))
    last = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), space)
    shown = eval(compile(last, "cell", "eval"), space) if last else None
    if shown is not None:
        print(repr(shown), shown._repr_html_().startswith("<iframe"))
"""
"""Runs the cells of a notebook, and shows what the last line of each leaves, as Jupyter does."""


def test_the_notebook_runs_and_shows_a_page_for_every_report(tmp_path: Path) -> None:
    command = [*fresh.python(), "-c", CELLS, str(EXAMPLES / "notebook.ipynb")]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - our own interpreter
    assert done.returncode == 0, done.stderr[-3000:]
    explained, reported = done.stdout.splitlines()
    assert explained.startswith(
        "<Report 'What mixed precision does to a training step of sequential': graphs 1, 100 % of"
    )
    assert reported.startswith("<Report 'Mixed precision in this process': graphs ")
    assert explained.endswith(" True")
    assert reported.endswith(" True")


def test_every_example_is_run_here() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(PROMISES)


@pytest.mark.parametrize("name", PROMISES)
def test_example_can_be_read_in_one_go(name: str) -> None:
    text = (EXAMPLES / name).read_text("utf-8")
    assert text.startswith('"""')
    assert len(text.splitlines()) < LONGEST
