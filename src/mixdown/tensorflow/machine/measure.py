"""How fast this machine's devices are in each dtype: `measure_device` times one op of every family at a few sizes.

Ops run one after the other in a function, each on inputs of its own, so that TensorFlow cannot skip any. The time of
one op is taken from the difference between many and one, which leaves out the call itself; of several runs the fastest
counts, since other load on the machine only adds time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import tensorflow as tf

from mixdown.core.pricing.machines import SIZES
from mixdown.core.pricing.measured import FAMILIES, MODES, Measured
from mixdown.tensorflow.machine.measurements import described

MANY, FEW = 20, 4  # small and large ops in a function
LARGE = 10**6
RUNS = 7
SHORTEST = 1e-8  # seconds: what is too short to be measured
TABLE = 1000  # rows of the table of a lookup
CHANNELS = 64
KERNEL = (3, 3, CHANNELS, CHANNELS)


class Trial(NamedTuple):
    """An op of one size: the shapes of its inputs, and its amount of work, in operations or in elements moved."""

    run: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    amount: int


def measure_device(device_type: str, announce: Callable[[str], None]) -> Measured:
    """Time the first device of a type.

    Args:
        device_type: "CPU", "GPU" or "TPU".
        announce: is called with one line before each of `steps()` steps.
    """
    samples: dict[tuple[str, str, str], list[tuple[int, float]]] = {}
    for family in FAMILIES:
        dtypes = ("float32",) if family == "cast" else tuple(SIZES)
        for mode in MODES:
            announce(f"{device_type}: {family}, {mode}")
            for trial in trials(family):
                with tf.device(f"{device_type}:0"):
                    found = _seconds(trial, dtypes, jit=mode == "jit")
                for dtype, seconds in found.items():
                    samples.setdefault((family, mode, dtype), []).append((trial.amount, seconds))
    return Measured(described()[device_type], {key: tuple(its) for key, its in samples.items()})


def steps() -> int:
    """How often `measure_device` calls `announce`."""
    return len(MODES) * len(FAMILIES)


def trials(family: str) -> Sequence[Trial]:
    """The ops that represent a family, small to large."""
    make, sizes = TRIALS[family]
    return [make(size) for size in sizes]


def _images(side: int) -> tuple[int, ...]:
    return (8, side, side, CHANNELS)


def _convolution(side: int) -> Trial:
    run = partial(tf.nn.conv2d, strides=1, padding="SAME")
    return Trial(run, (_images(side), KERNEL), 2 * 8 * side**2 * 9 * CHANNELS**2)


def _convolution_gradient(side: int) -> Trial:
    image, kernel = _images(side), KERNEL

    def both(given: Any, weights: Any, gradient: Any) -> Any:
        by_image = tf.raw_ops.Conv2DBackpropInput(
            input_sizes=image, filter=weights, out_backprop=gradient, strides=[1, 1, 1, 1], padding="SAME"
        )
        by_kernel = tf.raw_ops.Conv2DBackpropFilter(
            input=given, filter_sizes=kernel, out_backprop=gradient, strides=[1, 1, 1, 1], padding="SAME"
        )
        return by_image, by_kernel

    return Trial(both, (image, kernel, image), 2 * 2 * 8 * side**2 * 9 * CHANNELS**2)


def _lookup(rows: int) -> Trial:
    run = partial(tf.gather, indices=tf.range(rows) * 7 % TABLE)
    return Trial(run, ((TABLE, 100),), 100 * (rows + TABLE))


def _normalized(values: Any) -> Any:
    ones, zeros = tf.ones(CHANNELS), tf.zeros(CHANNELS)
    made = tf.raw_ops.FusedBatchNormV3(x=values, scale=ones, offset=zeros, mean=zeros[:0], variance=zeros[:0])
    gradient = tf.raw_ops.FusedBatchNormGradV3(
        y_backprop=made.y,
        x=values,
        scale=ones,
        reserve_space_1=made.reserve_space_1,
        reserve_space_2=made.reserve_space_2,
        reserve_space_3=made.reserve_space_3,
    )
    return gradient.x_backprop


def _pooled(values: Any) -> Any:
    sizes: dict[str, Any] = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
    made = tf.raw_ops.MaxPool(input=values, **sizes)
    return tf.raw_ops.MaxPoolGrad(orig_input=values, orig_output=made, grad=made, **sizes)


TRIALS: dict[str, tuple[Callable[[int], Trial], Sequence[int]]] = {
    "product": (lambda side: Trial(tf.matmul, ((side, side), (side, side)), 2 * side**3), (32, 256, 768)),
    "convolution": (_convolution, (4, 16, 32)),
    "convolution gradient": (_convolution_gradient, (4, 16)),
    "normalization": (lambda side: Trial(_normalized, (_images(side),), 5 * 8 * side**2 * CHANNELS), (4, 32)),
    "pooling": (lambda side: Trial(_pooled, (_images(side),), 22 * side**2 * CHANNELS), (4, 32)),
    "elementwise": (lambda count: Trial(tf.multiply, ((count,), (count,)), 3 * count), (1000, 100_000, 1_000_000)),
    "reduction": (lambda rows: Trial(partial(tf.reduce_sum, axis=-1), ((rows, 100),), 101 * rows), (10, 1000, 10_000)),
    "lookup": (_lookup, (10, 1000, 10_000)),
    "cast": (lambda count: Trial(partial(tf.cast, dtype=tf.bfloat16), ((count,),), count), (1000, 100_000, 1_000_000)),
}
"""Per family, the function that makes a trial of one size, and the sizes."""


def _seconds(trial: Trial, dtypes: Sequence[str], *, jit: bool) -> dict[str, float]:
    """The time of one op in each dtype; the dtypes take turns, so that load on the machine hits all of them."""
    count = FEW if trial.amount > LARGE else MANY
    calls = {(dtype, n): _call(trial, dtype, n, jit=jit) for dtype in dtypes for n in (1, count)}
    rounds = [{key: _timed(call) for key, call in calls.items()} for _ in range(RUNS)]
    fastest = {key: min(times[key] for times in rounds) for key in calls}
    return {dtype: max((fastest[dtype, count] - fastest[dtype, 1]) / (count - 1), SHORTEST) for dtype in dtypes}


def _call(trial: Trial, dtype: str, count: int, *, jit: bool) -> Callable[[], Any]:
    """A function that runs an op `count` times, one after the other; it is traced and compiled already."""
    inputs = [[tf.cast(tf.random.uniform(shape), dtype) for shape in trial.shapes] for _ in range(count)]

    @tf.function(jit_compile=jit)
    def one_after_the_other(given: Any) -> list[Any]:
        outputs: list[Any] = []
        for each in given:
            with tf.control_dependencies(tf.nest.flatten(outputs[-1:])):
                outputs.append(trial.run(*each))
        return outputs

    one_after_the_other(inputs)  # trace, compile, warm up
    return lambda: one_after_the_other(inputs)


def _timed(call: Callable[[], Any]) -> float:
    tf.test.experimental.sync_devices()
    begin = perf_counter()
    call()
    tf.test.experimental.sync_devices()
    return perf_counter() - begin
