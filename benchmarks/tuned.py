"""Time of a training step on this machine after tuning, compared with float32. Target: at most 1.02, and 0.95 once.

Run `python benchmarks/tuned.py`. A step is tuned as in a user's program, from an empty cache folder. Then the same step
runs with the policy and without it in turns, in one process; the ratio is the median over pairs, printed with the
interval that holds the true median with a certainty of 95 %. No loss scaling: both sides would pay for it alike.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from itertools import product
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, the other benchmarks are still `benchmarks....`

import keras
import numpy as np
import tensorflow as tf
from benchmarks.corpus_text import encoder, lstm_language_model, recommender, tower
from benchmarks.corpus_training import floats, integers, sgd, supervised_step
from benchmarks.corpus_vision import classifier
from benchmarks.flat_graph import Step

import mixdown
from mixdown.cli.demo_training import Gate
from mixdown.tuning.memory import VARIABLE, Tuned, everything
from mixdown.tuning.race import bounds
from mixdown.tuning.tuner import BUDGET

LINE = "{:<12} | {:<5} | {:<8} | {:>8} | {:>8} | {:<14} | {}"
ENOUGH = 10.0  # seconds of pairs, if steps are short
MODES, LOWS = ("graph", "jit"), ("float16", "bfloat16")


def mlp(width: int = 1024) -> Step:
    """Four Dense layers."""
    return _classified(tower(inputs := keras.Input((512,)), (width,) * 4), inputs)


def element_wise(width: int = 8192, depth: int = 16) -> Step:
    """Two small Dense layers with gates between them, which work element by element."""
    hidden = keras.layers.Dense(width)(inputs := keras.Input((16,)))
    for _ in range(depth):
        hidden = Gate()(hidden)
    return _classified(hidden, inputs)


def _classified(hidden: Any, inputs: Any) -> Step:
    model = keras.Model(inputs, keras.layers.Dense(10)(hidden))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return supervised_step(model, sgd(keras), loss, [floats(*inputs.shape[1:])], integers())


MODELS: dict[str, Callable[[], Step]] = {
    "ResNet50": lambda: classifier("ResNet50", "k3", size=32),
    "MobileNetV2": lambda: classifier("MobileNetV2", "k3", size=32),
    "transformer": lambda: encoder(blocks=2, width=128, length=32, vocabulary=1000),
    "MLP": mlp,
    "LSTM": lambda: lstm_language_model(width=128, length=16, vocabulary=1000),
    "DLRM": lambda: recommender(tables=8, rows=1000, width=32),
    "element-wise": element_wise,
}


BATCH, BATCHES = 32, {"ResNet50": 4, "MobileNetV2": 4}
"""Smaller ones where a step of 32 takes seconds on a CPU: more pairs say more than longer steps."""


def step_of(model: str, *, jit: bool) -> Callable[[], object]:
    """A training step, with waiting for its result."""
    keras.utils.set_random_seed(1)
    step, chance = MODELS[model](), np.random.default_rng(1)
    function = tf.function(step.run, autograph=False, jit_compile=jit)
    shapes = [(BATCHES.get(model, BATCH), *spec.shape[1:]) for spec in step.signature]
    drawn = [
        chance.standard_normal(shape) if spec.dtype.is_floating else chance.integers(0, 2, shape)
        for shape, spec in zip(shapes, step.signature, strict=True)
    ]
    batch = [tf.constant(numbers, spec.dtype) for numbers, spec in zip(drawn, step.signature, strict=True)]
    return lambda: function(*batch).numpy()


def tune(step: Callable[[], object], policy: mixdown.Policy) -> str:
    """Call a step as often as tuning takes at most, in an empty cache folder; returns what was kept."""
    with tempfile.TemporaryDirectory() as folder, mixdown.rewriting(policy):
        os.environ[VARIABLE] = folder
        for _ in range(BUDGET + 1):
            step()
            if found := [each for each in everything().values() if isinstance(each, Tuned)]:
                return str(found[0])
    return "nothing changes"


def seconds(step: Callable[[], object], policy: mixdown.Policy | None) -> float:
    """The time of one step, after another of its kind as in a training; without a policy it runs in float32."""
    with mixdown.rewriting(policy) if policy else nullcontext():
        step()
        start = perf_counter()
        step()
        return perf_counter() - start


def row(model: str, low: str, mode: str, count: int) -> str:
    """One line of the table."""
    step, policy = step_of(model, jit=mode == "jit"), mixdown.Policy(low=low, devices="all", strategy="tuned")
    step()
    kept, order = tune(step, policy), [None, policy]
    warm = sum(seconds(step, each) for each in order)
    pairs = []
    for _ in range(max(count, min(int(ENOUGH / warm / 2), 10 * count))):
        order.reverse()
        pairs.append({each: seconds(step, each) for each in order})
    plain = median(each[None] for each in pairs)
    lowest, middle, highest = bounds([each[policy] / each[None] for each in pairs])
    interval = f"{lowest:.3f} to {highest:.3f}"
    return LINE.format(model, mode, low, f"{plain * 1e3:.1f} ms", f"{middle:.3f}", interval, kept)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Time of a training step after tuning")
    parser.add_argument("--pairs", type=int, default=50, help="at least; up to ten times as many of short steps")
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--modes", nargs="+", default=MODES, choices=MODES)
    parser.add_argument("--lows", nargs="+", default=LOWS, choices=LOWS)
    asked = parser.parse_args()
    print(f"median of at least {asked.pairs} pairs; keras {keras.__version__}, tensorflow {tf.__version__}")
    print(LINE.format("model", "mode", "dtype", "float32", "/float32", "95 % interval", "kept"))
    for model, mode, low in product(asked.models, asked.modes, asked.lows):
        print(row(model, low, mode, asked.pairs), flush=True)
        keras.backend.clear_session()


if __name__ == "__main__":
    main()
