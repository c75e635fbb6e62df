"""Errors of the gradients of one training step against float64, ours beside Keras's: `make bench-accuracy`.

Every model of the corpus takes one step in float64, under Keras's dtype policy and as rewritten by mixdown, all from
the same float32 weights: those it starts with, and those it has after 50 float32 steps on data that can be learnt. The
steps are compiled by XLA for the CPU, with smaller batches than in `table.py` and without dropout, which draws other
numbers in other dtypes. The error is the norm of the difference of all gradients, divided by the norm of those in
float64, and its root mean square over the seeds is printed. It takes about half an hour.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a script, this is `benchmarks.xla_gpu.accuracy`

import keras
import numpy as np
import tensorflow as tf
from benchmarks.xla_gpu.families.example import Example, indices, numbers
from benchmarks.xla_gpu.families.other import messages
from benchmarks.xla_gpu.lower import SCALE, mixdowns, rewritten
from benchmarks.xla_gpu.models import MODELS, signature, training_step

from mixdown import Policy

SMALLER = 8
"""By how much batches are smaller than in `MODELS`, down to two examples."""
NODES, EDGES = 2000, 8000
GRAPH = replace(
    MODELS["graph network"],
    build=partial(messages, NODES, EDGES),
    inputs=(numbers(NODES, 64), indices(EDGES, 2)),
    targets=(indices(NODES),),
)
WORDS, CLASSES = 200, 20
LIMIT = 1.1
LINE = "{:<14} {:<9} {:>6} {:>11} {:>11} {:>7}"

Arrays = list[np.ndarray]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one row per model, dtype and state of the weights, and which exceed the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS), help="comma-separated (default: %(default)s)")
    parser.add_argument("--dtypes", default="float16,bfloat16", help="comma-separated (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=3, help="how many (default: %(default)s)")
    parser.add_argument(
        "--steps", type=int, default=50, help="of training before the second row (default: %(default)s)"
    )
    parser.add_argument("--deny", default="", help="kinds of op, comma-separated, that mixdown keeps in float32")
    options = parser.parse_args(arguments)
    print(LINE.format("model", "dtype", "steps", "Keras", "mixdown", "ratio"))
    above = [row for name in options.models.split(",") for row in judged(name, options)]
    print(f"\nabove {LIMIT}: {', '.join(above) or 'none'}")


def judged(name: str, options: argparse.Namespace) -> Iterator[str]:
    """Print the rows of one model, and yield those above the limit."""
    plain = Step(name, "float32")
    states = [state for seed in range(options.seeds) for state in trained(plain, seed, options.steps)]
    reference = Step(name, "float64")
    reference.capture(plain)
    exact = [reference.gradients(state) for state in states]
    for low in options.dtypes.split(","):
        policy = Policy(low=low)
        for kind in filter(None, options.deny.split(",")):
            policy = policy.with_deny(kind)
        steps = Step(name, f"mixed_{low}"), Step(name, "float32", policy)
        errors = [
            [error(step.gradients(state), ref) for state, ref in zip(states, exact, strict=True)] for step in steps
        ]
        for index, count in enumerate((0, options.steps)):
            theirs, ours = (float(np.sqrt(np.mean(np.square(each[index::2])))) for each in errors)
            row = (name, low, count)
            print(LINE.format(*row, f"{theirs:.3g}", f"{ours:.3g}", f"{ours / theirs:.3f}"), flush=True)
            if not ours <= LIMIT * theirs:
                yield " ".join(map(str, row))


def error(found: Arrays, exact: Arrays) -> float:
    """The norm of the difference from the exact gradients, divided by their norm."""
    apart = sum(float(np.square(one - other).sum()) for one, other in zip(found, exact, strict=True))
    return float(np.sqrt(apart / sum(float(np.square(each).sum()) for each in exact)))


@dataclass(frozen=True)
class State:
    """What a step starts from: weights and other variables, and a batch."""

    weights: Arrays
    others: Arrays
    batch: Arrays


class Step:
    """The training step of a model under one of Keras's dtype policies, or as rewritten, compiled when it is called."""

    def __init__(self, name: str, keras_policy: str, policy: Policy | None = None) -> None:
        keras.utils.clear_session()
        keras.utils.set_random_seed(0)  # some models compute constants from random numbers when they are built
        self.float = "float64" if keras_policy == "float64" else "float32"
        keras.config.set_floatx(self.float)
        keras.config.set_dtype_policy(keras_policy)
        self.example = smaller(name)
        with without_dropout():
            model = self.example.build()
            step = training_step(model, self.example, 1.0 if keras_policy == "float64" else SCALE)
            specs = [self._spec(each) for each in signature(model, self.example)]
            if policy is not None:
                step = rewritten(step, specs, mixdowns(policy))
            function = tf.function(step, autograph=False, jit_compile=True, input_signature=specs)
            self.run = function.get_concrete_function()
        keras.config.set_floatx("float32")
        keras.config.set_dtype_policy("float32")

    def capture(self, other: "Step") -> None:
        """Take over the constants of another step: random numbers depend on the dtype."""
        values = [self._cast(tensor.numpy()) for tensor in other.run.captured_inputs]
        self.run.set_external_captures(list(map(tf.constant, values)))

    def gradients(self, state: State) -> Arrays:
        """The gradients of all weights: the momenta after a step that began with none."""
        momenta = self.after(state, [np.zeros_like(each) for each in state.weights])[2]
        return [np.asarray(each, np.float64) for each in momenta]

    def after(self, state: State, momenta: Arrays) -> tuple[Arrays, Arrays, Arrays]:
        """The weights, other variables and momenta after a step."""
        given = [*state.weights, *state.others, *momenta, *state.batch]
        out = [each.numpy() for each in self.run(*(tf.constant(self._cast(each)) for each in given))]
        first, second = len(state.weights), len(state.weights) + len(state.others)
        return out[:first], out[first:second], out[second : second + first]

    def _spec(self, spec: tf.TensorSpec) -> tf.TensorSpec:
        return tf.TensorSpec(spec.shape, self.float if spec.dtype == tf.float32 else spec.dtype)

    def _cast(self, value: np.ndarray) -> np.ndarray:
        return value.astype(self.float) if value.dtype.kind == "f" else value


def trained(step: Step, seed: int, steps: int) -> tuple[State, State]:
    """Where one seed starts, and where it is after so many steps in float32; each with a batch of its own."""
    keras.utils.set_random_seed(seed)
    model = step.example.build()
    rng, rules = np.random.default_rng(seed), Rules(np.random.default_rng(100 + seed))
    start = State(
        [np.asarray(each) for each in model.trainable_variables],
        [np.asarray(each) for each in model.non_trainable_variables],
        rules.batch(step.example, rng),
    )
    now, momenta = start, [np.zeros_like(each) for each in start.weights]
    for _ in range(steps):
        weights, others, momenta = step.after(now, momenta)
        now = State(weights, others, rules.batch(step.example, rng))
    return start, now


class Rules:
    """What there is to learn: a pattern a class, in inputs and targets, and one word that follows another."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._patterns: dict[tuple[int, tuple[int, ...]], np.ndarray] = {}

    def batch(self, example: Example, rng: np.random.Generator) -> Arrays:
        """Inputs and targets of one batch."""
        words = NODES if example is GRAPH else WORDS
        inputs = [self._input(spec, words, rng) for spec in example.inputs]
        groups = rng.integers(0, CLASSES, example.inputs[0].shape[0])
        targets = [self._target(spec, inputs, groups, rng) for spec in example.targets]
        first = targets[0] if targets and targets[0].dtype.kind == "i" else groups
        for index, given in enumerate(inputs):
            if given.dtype.kind == "f" and given.shape[: first.ndim] == first.shape:
                inputs[index] = given + self._pattern(index, given.shape[first.ndim :])[first]
        return [*inputs, *targets]

    def _input(self, spec: tf.TensorSpec, words: int, rng: np.random.Generator) -> np.ndarray:
        if spec.dtype == tf.int32:
            return rng.integers(0, words, spec.shape).astype("int32")
        return rng.normal(size=spec.shape).astype("float32")

    def _target(self, spec: tf.TensorSpec, inputs: Arrays, groups: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        shape = tuple(spec.shape)
        alike = next((each for each in inputs if each.shape == shape), None)
        if spec.dtype != tf.int32:
            return (self._pattern(-1 - len(shape), shape[1:])[groups] > 0).astype("float32")
        if alike is None:
            return rng.integers(0, CLASSES, shape).astype("int32")
        return np.arange(shape[0], dtype="int32") if len(shape) == 1 else ((3 * alike + 1) % WORDS).astype("int32")

    def _pattern(self, key: int, shape: tuple[int, ...]) -> np.ndarray:
        """One array a class, the same in all batches."""
        if (key, shape) not in self._patterns:
            self._patterns[key, shape] = self._rng.normal(size=(CLASSES, *shape)).astype("float32")
        return self._patterns[key, shape]


def smaller(name: str) -> Example:
    """A model of the corpus with a smaller batch."""
    if name == "graph network":
        return GRAPH
    example = MODELS[name]
    return replace(example, inputs=_fewer(example.inputs), targets=_fewer(example.targets))


def _fewer(specs: Sequence[tf.TensorSpec]) -> tuple[tf.TensorSpec, ...]:
    return tuple(tf.TensorSpec([max(2, spec.shape[0] // SMALLER), *spec.shape[1:]], spec.dtype) for spec in specs)


@contextmanager
def without_dropout() -> Iterator[None]:
    """Have layers drop nothing."""
    kept = keras.layers.Dropout.call
    keras.layers.Dropout.call = lambda _, inputs, training=False: inputs  # noqa: ARG005 - Keras passes it by name
    try:
        yield
    finally:
        keras.layers.Dropout.call = kept


if __name__ == "__main__":
    main()
