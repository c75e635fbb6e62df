"""One training run of the demonstration, in float32 or mixed, with everything measured. See `train`."""

from __future__ import annotations

import os
import sys
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import keras
import tensorflow as tf

from mixdown.cli.demo_data import load
from mixdown.cli.demo_outcome import Outcome, Task
from mixdown.core import Policy
from mixdown.tensorflow.enable import enable_mixed_precision_graph_rewrite
from mixdown.tensorflow.explaining.process_report import report
from mixdown.tensorflow.loss_scaling.loss_scale import DynamicLossScale
from mixdown.tensorflow.machine.gates import closed_gate

BATCH = 64
WARM_UP = 5  # steps that are not timed
GROWTHS = 12  # how often the loss scale may grow: often enough to see it overflow and come back


def train(task: Task) -> Outcome:
    """Train a small convolutional network; the weights and the order of the images depend on nothing but the task."""
    keras.utils.set_random_seed(7)
    data = load(task.data)
    model, optimizer = _network(data.x_train.shape[1:], data.classes), keras.optimizers.Adam(1e-3)
    if task.low:
        steps = task.epochs * -(-len(data.x_train) // BATCH)
        scale = DynamicLossScale(increment_period=max(steps // GROWTHS, 1))
        # Every device takes part: a demonstration should show something on all of them.
        policy = Policy(low=task.low, devices="all")
        optimizer = enable_mixed_precision_graph_rewrite(optimizer, scale, policy=policy)
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    watch, meter = _Stopwatch(), _Meter()
    model.fit(data.x_train, data.y_train, batch_size=BATCH, epochs=task.epochs, callbacks=[watch.callback()])
    memory = meter.read()
    _, accuracy = model.evaluate(data.x_test, data.y_test, verbose=0)
    told = _told(task) if task.low else {}
    return Outcome(accuracy, watch.median(), memory, watch.steps, closed_gate(Policy()) or "", **told)


def _network(shape: tuple[int, ...], classes: int) -> keras.Model:
    layers = keras.layers
    blocks = [
        layer
        for width in (32, 64)
        for layer in (layers.Conv2D(width, 3, padding="same", activation="relu"), layers.MaxPooling2D())
    ]
    dense = [layers.Flatten(), layers.Dense(128, activation="relu"), layers.Dense(classes)]
    return keras.Sequential([layers.Input(shape), *blocks, *dense])


class _Stopwatch:
    """How long steps take."""

    def __init__(self) -> None:
        self._moments: list[float] = []

    def callback(self) -> keras.callbacks.Callback:
        """What Keras calls after every step."""
        return keras.callbacks.LambdaCallback(on_train_batch_end=self._note)

    def _note(self, _batch: int, **_: object) -> None:
        self._moments.append(time.perf_counter())

    @property
    def steps(self) -> int:
        """How many there were."""
        return len(self._moments)

    def median(self) -> float:
        """The seconds of the middle one."""
        moments = self._moments[min(WARM_UP, len(self._moments) - 2) :]
        return median(after - before for before, after in pairwise(moments))


class _Meter:
    """How much memory is taken from now on: the GPU's if there is one, else the process's."""

    def __init__(self) -> None:
        self._gpu = next((device.name for device in tf.config.list_logical_devices("GPU")), "")
        self._before = 0 if self._gpu else _resident()

    def read(self) -> int:
        """The most bytes at any time."""
        if self._gpu:
            return int(tf.config.experimental.get_memory_info(self._gpu)["peak"])
        return _peak() - self._before


def _resident() -> int:
    """The bytes that this process holds now, 0 where the system does not tell."""
    status = Path("/proc/self/statm")
    return int(status.read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE") if status.is_file() else 0


def _peak() -> int:
    """The most bytes that this process ever held, 0 where the system does not tell."""
    if sys.platform != "linux":
        return 0
    import resource  # noqa: PLC0415 - not there on every system

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _told(task: Task) -> dict[str, Any]:
    """What the report says about the training step, and about the loss scale."""
    everything = report()
    if task.page:
        everything.save(task.page)
    step = max(everything.graphs, key=lambda graph: len(graph.ops)).totals
    scaler = everything.scalers[-1]
    return {
        "ops": step.ops,
        "low_ops": step.low_ops,
        "casts": step.casts,
        "timeline": scaler.timeline,
        "skipped": tuple(skip.step for skip in scaler.skips),
    }
