"""Time of a training step on this CPU in float32, with Keras's mixed dtype policies, and with mixdown.

Run `python benchmarks/step_time.py`. All variants of a model are run in turns in one process; a ratio is the median
over rounds of the ratio to float32 within a round. With mixdown, 16 bits are used on every device, which on a CPU saves
memory but no time.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, the other benchmark is still `benchmarks....`

import keras
import numpy as np
from benchmarks.scaler_overhead import CLOCKS, Clock, Step, rounds

import mixdown

LINE = "{:<12} | {:<5} | {:<24} | {:>9} | {:>8}"


class Variant(NamedTuple):
    """One way to train."""

    keras_policy: str = "float32"
    policy: mixdown.Policy | None = None


VARIANTS = {
    "float32": Variant(),
    "Keras mixed_float16": Variant("mixed_float16"),
    "Keras mixed_bfloat16": Variant("mixed_bfloat16"),
    **{f"mixdown {low}": Variant(policy=mixdown.Policy(low=low, devices="all")) for low in ("float16", "bfloat16")},
}


def mlp() -> tuple[Any, Any, Any]:
    """Four Dense layers of 1024 units; the shape of a batch, and the number of its labels."""
    layers = [keras.layers.Dense(1024, activation="relu") for _ in range(4)]
    return keras.Sequential([keras.Input((512,)), *layers, keras.layers.Dense(10)]), (256, 512), 256


def transformer() -> tuple[Any, Any, Any]:
    """Two blocks of attention over 64 positions of 256 numbers."""
    x = inputs = keras.Input((64, 256))
    for _ in range(2):
        normal = keras.layers.LayerNormalization()(x)
        x = x + keras.layers.MultiHeadAttention(4, 64)(normal, normal)
        hidden = keras.layers.Dense(1024, activation="gelu")(keras.layers.LayerNormalization()(x))
        x = x + keras.layers.Dense(256)(hidden)
    out = keras.layers.Dense(10)(keras.layers.GlobalAveragePooling1D()(x))
    return keras.Model(inputs, out), (16, 64, 256), 16


def resnet50() -> tuple[Any, Any, Any]:
    """Keras's ResNet50 on four pictures of 96 x 96."""
    model = keras.applications.ResNet50(weights=None, input_shape=(96, 96, 3), classes=10, classifier_activation=None)
    return model, (4, 96, 96, 3), 4


MODELS: dict[str, Callable[[], tuple[Any, Any, Any]]] = {"MLP": mlp, "transformer": transformer, "ResNet50": resnet50}


def step_of(model: str, variant: Variant, *, jit: bool) -> Step:
    """A training step."""
    keras.utils.set_random_seed(1)
    keras.config.set_dtype_policy(variant.keras_policy)
    try:
        network, shape, batch = MODELS[model]()
        optimizer = keras.optimizers.SGD(1e-3)
        if variant.keras_policy == "mixed_float16":
            optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
        network.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=jit)
    finally:
        keras.config.set_dtype_policy("float32")
    images, labels = np.random.default_rng(1).standard_normal(shape, dtype="float32"), np.zeros(batch)
    scope = (lambda: mixdown.rewriting(variant.policy)) if variant.policy else nullcontext

    def step() -> None:
        with scope():
            network.train_on_batch(images, labels)

    return step


def rows(model: str, names: list[str], count: int, clock: Clock, *, jit: bool) -> Iterator[str]:
    """The lines of one model."""
    steps = {name: step_of(model, VARIANTS[name], jit=jit) for name in names}
    rounds(steps, 2, clock)  # trace, compile, warm up
    times = rounds(steps, count, clock)
    for name in names:
        ratio = median(each[name] / each["float32"] for each in times)
        taken = f"{median(each[name] for each in times) * 1e3:.0f} ms"
        yield LINE.format(model, "jit" if jit else "graph", name, taken, f"{ratio:.3f}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Time of a training step on this CPU")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--modes", nargs="+", default=["graph", "jit"], choices=["graph", "jit"])
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--clock", default="wall", choices=sorted(CLOCKS))
    asked = parser.parse_args()
    print(f"{asked.clock} time, median of {asked.rounds} rounds")
    print(LINE.format("model", "mode", "variant", "a step", "/float32"))
    for model in asked.models:
        for mode in asked.modes:
            for line in rows(model, asked.variants, asked.rounds, CLOCKS[asked.clock], jit=mode == "jit"):
                print(line, flush=True)
            keras.backend.clear_session()


if __name__ == "__main__":
    main()
