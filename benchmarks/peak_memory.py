"""Peak memory of training a VGG-style network on the CPU in mixed precision, relative to float32.

Run `python benchmarks/peak_memory.py`. Each measurement runs in a separate process: the peak memory, minus the memory
just before the first step. The network is not compiled by XLA, which has its own allocator. Target: a ratio of at most
0.65. About 250 MB of the peak are TensorFlow's own set-up in the first step, in either precision, so the network must
be large enough for its activations to matter.
"""

import argparse
import os
import resource
import subprocess
import sys
from contextlib import nullcontext
from statistics import median
from typing import Any

import numpy as np

import mixdown

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

WIDTHS = (32, 64, 128)  # filters of the blocks of two convolutions each
SIDE, BATCH, STEPS = 192, 64, 2
LINE = "{:<24} | {:>8} | {:>6}"
VARIANTS = ("float32", "float16")


def train(variant: str) -> None:
    """Run a few steps in one precision and print how many megabytes they took."""
    import keras  # noqa: PLC0415 - only the measuring process pays for it

    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((SIDE, SIDE, 3)), *_layers(keras), keras.layers.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.01), loss, jit_compile=False)
    images, labels = np.ones((BATCH, SIDE, SIDE, 3), "float32"), np.zeros(BATCH)
    policy = mixdown.Policy(low=variant, devices="all") if variant != "float32" else None
    with mixdown.rewriting(policy) if policy else nullcontext():
        before = _resident()
        for _ in range(STEPS):
            model.train_on_batch(images, labels)
    print(_peak() - before)


def _layers(keras: Any) -> list[Any]:
    layers = []
    for width in WIDTHS:
        layers += [keras.layers.Conv2D(width, 3, padding="same", activation="relu") for _ in range(2)]
        layers.append(keras.layers.MaxPooling2D(2))
    return [*layers, keras.layers.Flatten()]


def _resident() -> float:
    with open("/proc/self/statm") as file:  # noqa: PTH123 - a line of the kernel's
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def megabytes(variant: str) -> float:
    """The peak memory in megabytes, measured in a new process."""
    command = [sys.executable, __file__, "--measure", variant]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603 - this script
    return float(printed.splitlines()[-1])


def main() -> None:
    """Measure in child processes and print the ratios; with `--measure`, be such a child process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--measure", choices=VARIANTS, help="measure this in this process")
    options = parser.parse_args()
    if options.measure:
        train(options.measure)
        return
    taken = [{variant: megabytes(variant) for variant in VARIANTS} for _ in range(options.rounds)]
    print(LINE.format("low", "peak MB", "ratio"))
    for variant in VARIANTS:
        ratio = median(each[variant] / each["float32"] for each in taken)
        print(LINE.format(variant, f"{median(each[variant] for each in taken):.0f}", f"{ratio:.2f}"))


if __name__ == "__main__":
    main()
