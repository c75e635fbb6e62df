"""What the demonstration runs: `python -m mixdown.cli.demo_training`. Start with `run`, which names the parts.

A part may print lines for people; its result is one line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from mixdown.cli.common import write_line
from mixdown.cli.demo_children import end_with_parent, in_copy
from mixdown.cli.demo_data import Data, load
from mixdown.core import Policy
from mixdown.core.pricing.machines import MACHINES
from mixdown.reports.build import graph_report
from mixdown.tensorflow.enable import (
    disable_mixed_precision_graph_rewrite,
    enable_mixed_precision_graph_rewrite,
    rewriting,
)
from mixdown.tensorflow.explaining.process_report import report
from mixdown.tensorflow.explaining.subjects import PlannedGraph, planned_graphs
from mixdown.tensorflow.loss_scaling.loss_scale import DynamicLossScale
from mixdown.tensorflow.machine.gates import closed_gate
from mixdown.tuning.memory import VARIABLE
from mixdown.tuning.tuner import SHARE

BATCH = 64
FIRST, EVERY = 10, 20  # the first bad batch, and one in how many is bad
MOST_STEPS = 400
REPLICAS = ("CPU:0", "CPU:1")
TESTED = 1000  # images at a time
SIDE, CHANNELS, DEPTH, IMAGES = 256, 8, 8, 8  # of the network whose memory is measured
GATES, EXPECTED_CALLS = 12, 1300  # of the network that is tuned: enough calls to try each plan, once
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
        model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(*batches, batch_size=BATCH, shuffle=False, verbose=0)
    keras.mixed_precision.set_global_policy("float32")
    scalers = report().scalers if how in ("float16", "bfloat16") else ()
    return {
        "finite": all(bool(np.isfinite(weight).all()) for weight in model.get_weights()),
        "accuracy": _accuracy(model, data),
        "skips": [[skip.step, skip.variables[0][0] if skip.variables else ""] for skip in scalers[-1].skips]
        if scalers
        else [],
    }


def _accuracy(model: keras.Model, data: Data) -> float:
    """The share of test images that it tells right, as it runs under the policy in force."""
    forward, starts = tf.function(model, reduce_retracing=True), range(0, len(data.x_test), TESTED)
    found = [np.argmax(forward(data.x_test[start : start + TESTED]), -1) for start in starts]
    return float(np.mean(np.concatenate(found) == data.y_test))


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


def memory(low: str) -> int:
    """The most bytes that training convolutions takes, at a size where it matters, in 16 bits or "float32".

    A batch of one image comes first, after which TensorFlow holds what it needs for batches of any size.
    """
    model, held = _convolutions(low), list[int]()
    batches = tf.data.Dataset.from_tensor_slices([1, IMAGES]).map(
        lambda count: (tf.ones([count, SIDE, SIDE, 3]), tf.zeros([count], tf.int32))
    )
    noted = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: held.append(_resident()))  # noqa: ARG005 - Keras passes them by name
    model.fit(batches, verbose=0, callbacks=[noted])
    return _peak(held[0])


def speed() -> list[str]:
    """What tuning keeps for a compiled training step that is mostly element-wise, which CPUs may gain from, too."""
    keras.utils.set_random_seed(7)
    layers = keras.layers
    model = keras.Sequential(
        [layers.Input([64]), layers.Dense(2048), *(Gate() for _ in range(GATES)), layers.Dense(10)]
    )
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=True)
    policy = Policy(low="bfloat16", devices="all", strategy="tuned", expected_calls=EXPECTED_CALLS)
    with tempfile.TemporaryDirectory() as folder, rewriting(policy):
        os.environ[VARIABLE] = folder  # tuned anew every time
        for _ in range(int(SHARE * EXPECTED_CALLS) + 1):
            model.train_on_batch(np.ones([2 * BATCH, 64], "float32"), np.zeros([2 * BATCH], "int32"))
        return [graph.tuned for graph in report().graphs if graph.tuned]


def prediction(low: str) -> list[dict[str, Any]]:
    """The work of a step of the convolutions, and the times that are predicted for some devices."""
    model, specs = _convolutions("float32"), (tf.TensorSpec([32, SIDE, SIDE, 3]), tf.TensorSpec([32], tf.int32))
    (step,) = planned_graphs(model, Policy(low=low, devices="all"), specs, machine=MACHINES[DEVICES[0]])
    return [_predicted(step, device) for device in DEVICES]


def _predicted(step: PlannedGraph, device: str) -> dict[str, Any]:
    effort = graph_report(step.plan, step.name, step.kind, step.facts._replace(machine=MACHINES[device])).effort
    (times,) = effort.predicted
    return {
        "device": device,
        "share": effort.share,
        "bytes": effort.bytes,
        "float32_bytes": effort.float32_bytes,
        "float32": times.float32,
        "mixed": times.mixed,
    }


class Gate(keras.layers.Layer):  # type: ignore[misc]  # Keras is untyped
    """Scales and shifts every feature, and adds the result to its input if it is positive."""

    def build(self, shape: tuple[int, ...]) -> None:
        """Make the two weights."""
        self.scale, self.shift = (self.add_weight(shape=shape[-1:], initializer=name) for name in ("ones", "zeros"))

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Element by element."""
        return keras.ops.relu(x * self.scale + self.shift) + 0.5 * x


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


def run(name: str, epochs: str, low: str, page: str) -> Iterator[Any]:
    """The results of all parts, in order; what is timed comes last, when nothing else runs."""
    train = [in_copy(partial(memory, how)) for how in ("float32", low)]  # first of all, see there
    end_with_parent()
    yield rescue(name, epochs, low, page)
    yield [result() for result in train]
    yield speed()
    yield {"predicted": prediction(low), "closed_gate": closed_gate(Policy()) or ""}


if __name__ == "__main__":
    for found in run(*sys.argv[1:]):
        write_line(json.dumps(found))
    os._exit(0)  # without waiting for the threads of TensorFlow
