"""What the demonstration runs, each part in a process of its own: `python -m mixdown.cli.demo_training`.

The parts are `rescue`, `memory` and `machines`. A part prints lines for people, and its result as one line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from mixdown.cli.common import write_line
from mixdown.cli.demo_data import Data, load
from mixdown.core import Policy
from mixdown.tensorflow.enable import (
    disable_mixed_precision_graph_rewrite,
    enable_mixed_precision_graph_rewrite,
)
from mixdown.tensorflow.explaining.explain import explain
from mixdown.tensorflow.explaining.process_report import report
from mixdown.tensorflow.loss_scaling.loss_scale import DynamicLossScale
from mixdown.tensorflow.machine.gates import closed_gate
from mixdown.tuning.memory import VARIABLE
from mixdown.tuning.tuner import SHARE

BATCH = 64
FIRST, EVERY = 10, 20  # the first bad batch, and one in how many is bad
MOST_STEPS = 400
REPLICAS = ("CPU:0", "CPU:1")
SIDE, CHANNELS, DEPTH, IMAGES, STEPS = 256, 8, 8, 16, 1  # of the network whose memory is measured
DEVICES = ("T4", "A100", "H100")


def rescue(name: str, epochs: str, low: str, page: str) -> list[dict[str, Any]]:
    """Train with clean batches, then with some that hold a NaN, in float32, by Keras's policy, and by mixdown.

    The runs with bad batches have two replicas, as on two GPUs, and the NaN is in the images of the second.
    """
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * len(REPLICAS))
    data = load(name)
    images, labels = _batches(data, int(epochs))
    bad = images.copy()
    bad[FIRST * BATCH + BATCH - 1 :: EVERY * BATCH] = np.nan
    runs = []
    for how, given in (("float32", images), (low, images), ("float32", bad), (f"mixed_{low}", bad), (low, bad)):
        run = _run(data, how, (given, labels), two=given is bad)
        write_line(f"  {_named(how)}, {'bad' if given is bad else 'clean'} batches: accuracy {run['accuracy']:.3f}")
        runs.append({"how": how, "bad": given is bad, "steps": len(images) // BATCH, **run})
        if how == low:
            report().save(page)
            disable_mixed_precision_graph_rewrite()
    return runs


def _batches(data: Data, epochs: int) -> tuple[np.ndarray, np.ndarray]:
    """So many passes through the images, each in its own order, in whole batches."""
    rng = np.random.default_rng(0)
    order = np.concatenate([rng.permutation(len(data.x_train)) for _ in range(epochs)])[: MOST_STEPS * BATCH]
    order = order[: max(len(order) // BATCH, 1) * BATCH]
    return data.x_train[order], data.y_train[order]


def _run(data: Data, how: str, batches: tuple[np.ndarray, np.ndarray], *, two: bool) -> dict[str, Any]:
    """Train one network, always with the same weights to begin with."""
    keras.utils.set_random_seed(7)
    keras.mixed_precision.set_global_policy(how if how.startswith("mixed_") else "float32")
    strategy = tf.distribute.MirroredStrategy(REPLICAS) if two else tf.distribute.get_strategy()
    with strategy.scope():
        model, optimizer = _classifier(data), _optimizer(how)
        model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    model.fit(*batches, batch_size=BATCH, shuffle=False, verbose=0)
    keras.mixed_precision.set_global_policy("float32")
    scalers = report().scalers if how in ("float16", "bfloat16") else ()
    return {
        "finite": all(bool(np.isfinite(weight).all()) for weight in model.get_weights()),
        "accuracy": float(model.evaluate(data.x_test, data.y_test, verbose=0)[1]),
        "skips": [[skip.step, skip.variables[0][0] if skip.variables else ""] for skip in scalers[-1].skips]
        if scalers
        else [],
    }


def _classifier(data: Data) -> keras.Model:
    layers = keras.layers
    inner = [layers.Conv2D(16, 3, padding="same", activation="relu"), layers.MaxPooling2D(), layers.Flatten()]
    dense = [layers.Dense(64, activation="relu"), layers.Dense(data.classes, dtype="float32")]
    return keras.Sequential([layers.Input(data.x_train.shape[1:]), *inner, *dense])


def _optimizer(how: str) -> Any:  # noqa: ANN401 - Keras and mixdown have their own classes
    optimizer = keras.optimizers.Adam(2e-3)
    if how not in ("float16", "bfloat16"):
        return optimizer
    # All devices: the demonstration should show something on every machine.
    return enable_mixed_precision_graph_rewrite(optimizer, DynamicLossScale(), policy=Policy(low=how, devices="all"))


def _named(how: str) -> str:
    if how == "float32":
        return how
    return f"Keras's {how}" if how.startswith("mixed_") else f"mixdown, {how}"


def memory(low: str) -> dict[str, Any]:
    """The most bytes that training convolutions takes, at a size where it matters, in 16 bits or "float32"."""
    model = _convolutions(low)
    images, labels = np.ones([IMAGES, SIDE, SIDE, 3], "float32"), np.zeros([IMAGES], "int32")
    held = _resident()
    for _ in range(STEPS):
        model.train_on_batch(images, labels)
    return {"bytes": _peak(held), "closed_gate": closed_gate(Policy()) or ""}


def prediction(low: str) -> list[dict[str, Any]]:
    """The work of a step of the same convolutions, and the times that are predicted for some devices."""
    model, specs = _convolutions("float32"), (tf.TensorSpec([32, SIDE, SIDE, 3]), tf.TensorSpec([32], tf.int32))
    found = []
    for device in DEVICES:
        (graph,) = explain(model, *specs, policy=Policy(low=low, devices="all"), device=device).graphs
        effort = graph.effort
        (times,) = effort.predicted
        found.append(
            {
                "device": device,
                "share": effort.share,
                "bytes": effort.bytes,
                "float32_bytes": effort.float32_bytes,
                "float32": times.float32,
                "mixed": times.mixed,
            }
        )
    return found


def machines(low: str) -> dict[str, Any]:
    """What other machines are predicted to gain, and what this one gains; together, as TensorFlow loads slowly."""
    return {"predicted": prediction(low), "kept": speed()}


class Gate(keras.layers.Layer):  # type: ignore[misc]  # Keras is untyped
    """Scales and shifts every feature, and adds the result to its input if it is positive."""

    def build(self, shape: tuple[int, ...]) -> None:
        """Make the two weights."""
        self.scale, self.shift = (self.add_weight(shape=shape[-1:], initializer=name) for name in ("ones", "zeros"))

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Element by element."""
        return keras.ops.relu(x * self.scale + self.shift) + 0.5 * x


def speed() -> list[str]:
    """What tuning keeps for a compiled training step that is mostly element-wise, which CPUs may gain from, too."""
    keras.utils.set_random_seed(7)
    gates, layers = [Gate() for _ in range(2 * DEPTH)], keras.layers
    model = keras.Sequential([layers.Input([64]), layers.Dense(2048), *gates, layers.Dense(10)])
    policy = Policy(low="bfloat16", devices="all", strategy="tuned", expected_calls=2000)
    with tempfile.TemporaryDirectory() as folder:
        os.environ[VARIABLE] = folder  # tuned anew every time
        optimizer = enable_mixed_precision_graph_rewrite(keras.optimizers.SGD(1e-4), policy=policy)
        model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=True)
        for _ in range(int(SHARE * policy.expected_calls) + 1):
            model.train_on_batch(np.ones([2 * BATCH, 64], "float32"), np.zeros([2 * BATCH], "int32"))
    return [graph.tuned for graph in report().graphs if graph.tuned]


def _convolutions(how: str) -> keras.Model:
    keras.utils.set_random_seed(7)
    layers = keras.layers
    inner = [layers.Conv2D(CHANNELS, 3, padding="same", activation="relu") for _ in range(DEPTH)]
    model = keras.Sequential([layers.Input([SIDE, SIDE, 3]), *inner, layers.GlobalAveragePooling2D(), layers.Dense(10)])
    model.compile(_optimizer(how), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def _resident() -> int:
    """The bytes that this process holds now, 0 if the system does not report it."""
    status = Path("/proc/self/statm")
    return int(status.read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE") if status.is_file() else 0


def _peak(before: int) -> int:
    """The most bytes in use at a time: of the GPU if there is one, else of the process, beyond what it held before."""
    if gpus := tf.config.list_logical_devices("GPU"):
        return int(tf.config.experimental.get_memory_info(gpus[0].name)["peak"])
    if sys.platform != "linux":
        return 0
    import resource  # noqa: PLC0415 - not there on every system

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before


PARTS: dict[str, Callable[..., Any]] = {"rescue": rescue, "memory": memory, "machines": machines}


def _end_with_parent() -> None:
    """Leave when the process that started this one is gone: it holds the other end of stdin."""
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    write_line(json.dumps(PARTS[sys.argv[1]](*sys.argv[2:])))
    os._exit(0)  # without waiting for the threads of TensorFlow
