"""One training run of the demonstration, in float32 or mixed, with time and memory measured: `train`."""

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
from mixdown.core import Policy
from mixdown.tensorflow.enable import enable_mixed_precision_graph_rewrite
from mixdown.tensorflow.explaining.process_report import report
from mixdown.tensorflow.loss_scaling.loss_scale import DynamicLossScale
from mixdown.tensorflow.machine.gates import closed_gate

BATCH = 64
WARM_UP = 5  # steps that are not timed
GROWTHS = 12  # of the loss scale in a run: enough to see it overflow and recover


def train(name: str, epochs: int, low: str, page: str) -> dict[str, Any]:
    """Train a small convolutional network, always with the same weights and order of images.

    Args:
        name: the data set.
        epochs: how often to go through it.
        low: the 16-bit dtype, "" to train in float32.
        page: where to write the report.

    Returns:
        The fields of `mixdown.cli.demo.DemoResult`.
    """
    keras.utils.set_random_seed(7)
    data = load(name)
    model, optimizer = _network(data.x_train.shape[1:], data.classes), keras.optimizers.Adam(1e-3)
    if low:
        steps = epochs * -(-len(data.x_train) // BATCH)
        scale = DynamicLossScale(increment_period=max(steps // GROWTHS, 1))
        # All devices: the demonstration should show something on every machine.
        policy = Policy(low=low, devices="all")
        optimizer = enable_mixed_precision_graph_rewrite(optimizer, scale, policy=policy)
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    ends: list[float] = []
    clock = keras.callbacks.LambdaCallback(on_train_batch_end=lambda *_, **__: ends.append(time.perf_counter()))
    meter = _Meter()
    model.fit(data.x_train, data.y_train, batch_size=BATCH, epochs=epochs, callbacks=[clock])
    memory = meter.read()
    _, accuracy = model.evaluate(data.x_test, data.y_test, verbose=0)
    timed = ends[min(WARM_UP, len(ends) - 2) :]
    return {
        "accuracy": accuracy,
        "step_seconds": median(after - before for before, after in pairwise(timed)),
        "memory": memory,
        "steps": len(ends),
        "closed_gate": closed_gate(Policy()) or "",
        **(_reported(page) if low else {}),
    }


def _network(shape: tuple[int, ...], classes: int) -> keras.Model:
    layers = keras.layers
    blocks = [
        layer
        for width in (32, 64)
        for layer in (layers.Conv2D(width, 3, padding="same", activation="relu"), layers.MaxPooling2D())
    ]
    dense = [layers.Flatten(), layers.Dense(128, activation="relu"), layers.Dense(classes)]
    return keras.Sequential([layers.Input(shape), *blocks, *dense])


class _Meter:
    """Measures how much memory is taken from now on: of the GPU if there is one, else of the process."""

    def __init__(self) -> None:
        self._gpu = next((device.name for device in tf.config.list_logical_devices("GPU")), "")
        self._before = 0 if self._gpu else _resident()

    def read(self) -> int:
        """The largest number of bytes that was in use at a time."""
        if self._gpu:
            return int(tf.config.experimental.get_memory_info(self._gpu)["peak"])
        return _peak() - self._before


def _resident() -> int:
    """The bytes that this process holds now, 0 if the system does not report it."""
    status = Path("/proc/self/statm")
    return int(status.read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE") if status.is_file() else 0


def _peak() -> int:
    """The most bytes that this process ever held, 0 if the system does not report it."""
    if sys.platform != "linux":
        return 0
    import resource  # noqa: PLC0415 - not there on every system

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _reported(page: str) -> dict[str, Any]:
    """The numbers of the training step and the loss scale, from the report, which is saved."""
    everything = report()
    everything.save(page)
    step = max(everything.graphs, key=lambda graph: len(graph.ops)).totals
    scaler = everything.scalers[-1]
    return {
        "ops": step.ops,
        "low_ops": step.low_ops,
        "casts": step.casts,
        "timeline": scaler.timeline,
        "skipped": tuple(skip.step for skip in scaler.skips),
    }
