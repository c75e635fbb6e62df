"""Time of a Keras 3 training step with mixdown's loss scaling, with Keras's own, and without.

Run `python benchmarks/scaler_overhead.py`. The three steps are run in turns in one process, so that other load on the
machine affects all of them; a ratio is the median over rounds of the ratio within a round. On a busy machine, use
`--clock cpu`, which measures the CPU time of this process instead of wall time.
"""

import argparse
import os
import time
from collections.abc import Callable
from statistics import median
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf

import mixdown

Step = Callable[[], object]
Clock = Callable[[], float]
CLOCKS: dict[str, Clock] = {"wall": time.perf_counter, "cpu": time.process_time}

# Number of trained variables -> blocks, width, batch size, such that a step takes about 100 ms on two cores.
MODELS = {60: (10, 256, 1024), 600: (100, 64, 1024)}
LINE = "{:>9} | {:<36} | {:<5} | {:>9} | {:>12} | {:>10} | {:>13}"

WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "bare": lambda inner: inner,
    "mixdown": mixdown.LossScaleOptimizer,
    "keras": keras.optimizers.LossScaleOptimizer,
}


def residual_mlp(blocks: int, width: int) -> Any:
    """Blocks of LayerNorm, Dense, Dense around a skip connection: six variables each."""
    x = inputs = keras.Input([width])
    for _ in range(blocks):
        hidden = keras.layers.Dense(width, activation="relu")(keras.layers.LayerNormalization()(x))
        x = x + keras.layers.Dense(width)(hidden)
    return keras.Model(inputs, x)


def training_step(wrapper: str, blocks: int, width: int, batch: int, *, jit: bool) -> Step:
    """The step that `fit` runs, on an endless data set."""
    keras.utils.set_random_seed(1)
    model = residual_mlp(blocks, width)
    model.compile(WRAPPERS[wrapper](keras.optimizers.Adam(1e-4)), "mse", jit_compile=jit)
    data = np.random.default_rng(1).standard_normal((2, batch, width), dtype="float32")
    model.optimizer.build(model.trainable_variables)
    model.make_train_function()
    batches = iter(tf.data.Dataset.from_tensors(tuple(data)).repeat())
    return lambda: tf.nest.map_structure(np.asarray, model.train_function(batches))


def seconds(step: Step, clock: Clock) -> float:
    """The time of one step, including the copy of its results to the host."""
    start = clock()
    step()
    return clock() - start


def rounds(steps: dict[str, Step], count: int, clock: Clock) -> list[dict[str, float]]:
    """The times of each step in each round; the order of the steps rotates from round to round."""
    names, times = list(steps), []
    for turn in range(count):
        order = names[turn % len(names) :] + names[: turn % len(names)]
        times.append({name: seconds(steps[name], clock) for name in order})
    return times


def row(blocks: int, width: int, batch: int, count: int, clock: Clock, *, jit: bool) -> str:
    """One line of the table."""
    steps = {name: training_step(name, blocks, width, batch, jit=jit) for name in WRAPPERS}
    rounds(steps, 3, clock)  # trace, compile, warm up
    times = rounds(steps, count, clock)

    def ratio(one: str, other: str) -> float:
        return median(each[one] / each[other] for each in times)

    model = f"{blocks} blocks of width {width}, batch {batch}"
    bare = f"{median(each['bare'] for each in times) * 1e3:.0f} ms"
    ratios = [ratio("mixdown", "bare"), ratio("keras", "bare"), ratio("mixdown", "keras")]
    return LINE.format(blocks * 6, model, "jit" if jit else "graph", bare, *(f"{each:.3f}" for each in ratios))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="What loss scaling costs in a training step")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--variables", type=int, nargs="+", default=sorted(MODELS), choices=sorted(MODELS))
    parser.add_argument("--modes", nargs="+", default=["graph", "jit"], choices=["graph", "jit"])
    parser.add_argument("--clock", default="wall", choices=sorted(CLOCKS))
    asked = parser.parse_args()
    print(f"Residual MLPs, Adam; {asked.clock} time, median of {asked.rounds} rounds;", end=" ")
    print(f"keras {keras.__version__}, tensorflow {tf.__version__}")
    print(LINE.format("variables", "model", "mode", "bare step", "mixdown/bare", "keras/bare", "mixdown/keras"))
    for variables in asked.variables:
        for mode in asked.modes:
            print(row(*MODELS[variables], asked.rounds, CLOCKS[asked.clock], jit=mode == "jit"), flush=True)
            keras.backend.clear_session()


if __name__ == "__main__":
    main()
