"""The first call of a training step that XLA compiles: plain, with a loss scale, rewritten, with both, and Keras's own.

Run `python benchmarks/first_step.py`. Each way runs in processes of its own, in turns; the best of them counts. Keras's
policy and scaler are what a user has without mixdown: `mixed_float16` and `LossScaleOptimizer`. Printed are the seconds
of the first call, tracing included, beside the plain step; the seconds of processor time that went into tracing, into
planning and into the rest, which is XLA and one step; and what XLA was given and made of it: instructions,
conditionals, and the kernels that it compiled, one by one. XLA compiles with all processors of a machine, so on a busy
one the processor time tells more. The last line compares ours with Keras's turn by turn, because neighbours in time see
the same load: the median, the lowest and the highest.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

OURS, RIVAL = "scaler and rewrite", "Keras's policy and scaler"
WAYS = ("plain", "Keras's scaler", "scaler", "rewrite", OURS, RIVAL)
WIDTHS = (16, 32, 64, 64, 64, 64, 64)
COLUMNS = ("seconds", "/ plain", "CPU s", "/ plain", "tracing", "planning", "rest")
COUNTS = ("instructions", "conditionals", "kernels")
LINE = "{:26}" + " {:>8}" * len(COLUMNS) + " {:>12}" * len(COUNTS)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="processes a way (default: 3)")
    options = parser.parse_args(arguments)
    print(LINE.format("step", *COLUMNS, *COUNTS))
    runs = [{way: _measured(way) for way in WAYS} for _ in range(options.runs)]
    best = {way: [min(column) for column in zip(*(run[way] for run in runs), strict=True)] for way in WAYS}
    for way, (seconds, spent, *parts) in best.items():
        beside = seconds, seconds / best["plain"][0], spent, spent / best["plain"][1], *parts
        print(LINE.format(way, *(f"{each:.2f}" for each in beside), *_given(way)), flush=True)
    beside_rival = sorted(run[OURS][1] / run[RIVAL][1] for run in runs)
    print(f"{OURS} / {RIVAL}, CPU time: {median(beside_rival):.2f} ({beside_rival[0]:.2f} to {beside_rival[-1]:.2f})")


def _measured(way: str) -> list[float]:
    """The seconds of the first call, and its processor time: all of it, tracing, planning, and the rest."""
    return [float(each) for each in _output_of(way).split()[-5:]]


def _given(way: str) -> list[int]:
    """What XLA was given, and the kernels that it made of it, from the files that it writes when it is asked to."""
    with tempfile.TemporaryDirectory() as folder:
        _output_of(way, XLA_FLAGS=f"--xla_dump_to={folder} --xla_dump_hlo_as_text")
        of_step = [each for each in Path(folder).iterdir() if "inference_step" in each.name]
        (given,) = (each.read_text() for each in of_step if each.name.endswith("before_optimizations.txt"))
        kernels = sum(each.name.endswith("ir-with-opt.ll") for each in of_step)
    return [given.count(" = "), given.count(" conditional("), kernels]


def _output_of(way: str, **settings: str) -> str:
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "MIXDOWN_LOG": "error", **settings}
    command = [sys.executable, "-W", "ignore", __file__, "--way", way]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - our own interpreter
    if done.returncode:
        raise SystemExit(f"{way} failed:\n{done.stderr[-3000:]}")
    return done.stdout


def measure(way: str) -> None:
    """Print the figures of one way; runs in a process of its own."""
    import keras  # noqa: PLC0415 - only the child needs it
    import tensorflow as tf  # noqa: PLC0415 - likewise

    import mixdown  # noqa: PLC0415 - likewise

    twins: Any = import_module("mixdown.tensorflow.calls.twins")  # patched below

    layers = keras.layers
    if way == RIVAL:
        keras.config.set_dtype_policy("mixed_float16")
    convolutions = [layers.Conv2D(width, 3, padding="same", activation="relu") for width in WIDTHS]
    dense = [layers.GlobalAveragePooling2D(), layers.Dense(64, activation="relu"), layers.Dense(10, dtype="float32")]
    model = keras.Sequential([layers.Input((32, 32, 3)), *convolutions, *dense])
    optimizer = keras.optimizers.Adam()
    if way.endswith("rewrite"):
        mixdown.enable_mixed_precision_graph_rewrite(keras.optimizers.Adam(), policy=mixdown.Policy(devices="all"))
    if way.startswith("scaler"):
        optimizer = mixdown.LossScaleOptimizer(optimizer)
    if way.startswith("Keras"):
        optimizer = keras.mixed_precision.LossScaleOptimizer(optimizer)
    optimizer.build(model.trainable_variables)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function(jit_compile=True)
    def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            found = loss(labels, model(images, training=True))
            scaled = optimizer.scale_loss(found)
        optimizer.apply(tape.gradient(scaled, model.trainable_variables), model.trainable_variables)
        return found

    planning = []
    rewrite = twins.rewrite_function

    def timed(*arguments: object) -> object:
        start = time.process_time()
        try:
            return rewrite(*arguments)
        finally:
            planning.append(time.process_time() - start)

    twins.rewrite_function = timed
    batch = tf.ones([8, 32, 32, 3]), tf.zeros([8], tf.int32)
    start, spent = time.perf_counter(), time.process_time()
    step.get_concrete_function(*batch)
    tracing = time.process_time() - spent
    step(*batch).numpy()
    seconds, spent = time.perf_counter() - start, time.process_time() - spent
    print(seconds, spent, tracing, sum(planning), spent - tracing - sum(planning))


if __name__ == "__main__":
    measure(sys.argv[2]) if sys.argv[1:2] == ["--way"] else main()
