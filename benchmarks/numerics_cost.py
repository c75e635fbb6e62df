"""Time that the numerics tools take: a step with probes, relative to the same step without.

Run `python benchmarks/numerics_cost.py`. The steps are run in turns in one process; a ratio is the median over rounds
of the ratio within a round. `locate` runs the mixed-precision step and is compared with it; `statistics` runs in
float32 and is compared with the float32 step. Building the probed copy happens once and is printed separately. Targets:
locate below 5, statistics below 3. "off" is the fastest mixed step after the tools were used, relative to the fastest
before: 1 except for noise, because the tools leave nothing behind. On a busy machine, use `--clock cpu`, which measures
the CPU time of this process instead of wall time. In the model "small" a step takes about a millisecond, so that the
overhead per probe shows.
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
from mixdown.tensorflow.numerics.probing.counts import Counts
from mixdown.tensorflow.numerics.probing.health import Health
from mixdown.tensorflow.numerics.probing.runs import Run

POLICY = mixdown.Policy(devices="all")
LINE = "{:<24} | {:>9} | {:>9} | {:>7} | {:>12} | {:>10} | {:>10} | {:>5}"

Step = Callable[[], object]
Clock = Callable[[], float]
CLOCKS: dict[str, Clock] = {"wall": time.perf_counter, "cpu": time.process_time}


def convolutions() -> tuple[Any, tuple[int, ...]]:
    """Blocks of convolution, batch norm and ReLU, as in a ResNet."""
    x = inputs = keras.Input([32, 32, 3])
    for width in (32, 32, 64, 64):
        x = keras.layers.Conv2D(width, 3, padding="same")(x)
        x = keras.layers.ReLU()(keras.layers.BatchNormalization()(x))
    return keras.Model(inputs, keras.layers.GlobalAveragePooling2D()(x)), (32, 32, 32, 3)


def transformer() -> tuple[Any, tuple[int, ...]]:
    """Two encoder blocks, as wide as those of a small BERT."""
    x = inputs = keras.Input([64, 384])
    for _ in range(2):
        x = keras.layers.LayerNormalization()(x + keras.layers.MultiHeadAttention(6, 64)(x, x))
        hidden = keras.layers.Dense(1536, activation="gelu")(x)
        x = keras.layers.LayerNormalization()(x + keras.layers.Dense(384)(hidden))
    return keras.Model(inputs, keras.layers.GlobalAveragePooling1D()(x)), (8, 64, 384)


def perceptron() -> tuple[Any, tuple[int, ...]]:
    """Wide dense layers."""
    x = inputs = keras.Input([512])
    for _ in range(6):
        x = keras.layers.Dense(512, activation="relu")(x)
    return keras.Model(inputs, x), (1024, 512)


def small() -> tuple[Any, tuple[int, ...]]:
    """Layers so small that the overhead per op dominates."""
    x = inputs = keras.Input([64])
    for _ in range(4):
        x = keras.layers.Dense(64, activation="relu")(x)
    return keras.Model(inputs, x), (256, 64)


MODELS = {each.__name__: each for each in (convolutions, transformer, perceptron, small)}


def training_step(name: str) -> Step:
    """A whole training step on one batch."""
    keras.utils.set_random_seed(1)
    model, shape = MODELS[name]()
    optimizer = keras.optimizers.SGD(1e-6)
    rng = np.random.default_rng(1)
    x = tf.constant(rng.standard_normal(shape, dtype="float32"))
    y = tf.constant(rng.standard_normal(model(x).shape, dtype="float32"))

    @tf.function
    def step() -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    return lambda: step().numpy()


def seconds(step: Step, clock: Clock) -> float:
    """The time of one step, including the copy of its result to the host."""
    start = clock()
    step()
    return clock() - start


def mixed(step: Step) -> Step:
    """The step in mixed precision."""

    def call() -> object:
        with mixdown.rewriting(POLICY):
            return step()

    return call


def row(name: str, rounds: int, clock: Clock) -> str:
    """One line of the table."""
    step = training_step(name)
    plain, half = step, mixed(step)
    for each in (plain, half, plain, half):
        each()
    before = min(seconds(half, clock) for _ in range(rounds))
    with Run(Health(), POLICY, full=False) as health, Run(Counts(), POLICY, full=True) as counts:
        pairs: dict[str, Step] = {"mixed": half, "located": lambda: health(step)}
        pairs |= {"float32": plain, "measured": lambda: counts(step)}
        building = [seconds(pairs[probed], clock) for probed in ("located", "measured")]
        times = [{key: seconds(each, clock) for key, each in pairs.items()} for _ in range(rounds)]
    after = min(seconds(half, clock) for _ in range(rounds))
    steps = [f"{median(t[key] for t in times) * 1e3:.1f} ms" for key in ("float32", "mixed")]
    locate = median(t["located"] / t["mixed"] for t in times)
    statistics = median(t["measured"] / t["float32"] for t in times)
    build = [f"{each:.1f} s" for each in building]
    return LINE.format(name, *steps, f"{locate:.2f}", f"{statistics:.2f}", *build, f"{after / before:.2f}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="What the numerics tools cost")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--clock", default="wall", choices=sorted(CLOCKS))
    asked = parser.parse_args()
    print(
        f"Training steps on the CPU, {asked.clock} time, median of {asked.rounds} rounds; tensorflow {tf.__version__}"
    )
    heads = ("float32", "float16", "locate", "statistics", "build loc.", "build st.", "off")
    print(LINE.format("model", *heads))
    for name in asked.models:
        print(row(name, asked.rounds, CLOCKS[asked.clock]), flush=True)


if __name__ == "__main__":
    main()
