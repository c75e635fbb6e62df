"""Random traces of finite and non-finite steps: TensorFlow's forms of the loss scale against the pure machine."""

from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from mixdown.scaling import Law, State, StepCounts, after, counted
from mixdown.tensorflow.loss_scaling.loss_scale import DynamicLossScale

LAWS = [
    Law(),
    Law(1.0, 2, 2.0),
    Law(8.0, 1, 4.0, floor=0.5, ceiling=4096.0),
    Law(64.0, 3, 3.0, tolerance=2),
    Law(2.0**120, 1, 2.0),
    Law(1000.0, 5, 1.5, floor=10.0, ceiling=1e6, tolerance=3),
    Law(2.0**-100, 2, 2.0, floor=2.0**-126),
    Law(3.0, 1, 10.0),
    Law(2.0**15, 20, 2.0),
    Law(7.0, 2, 2.0, floor=7.0, ceiling=7.0),
]
STEPS = 10_000  # of each law: 100,000 in all
BAD_VALUES = [np.inf, -np.inf, np.nan]


class Trace(NamedTuple):
    """What is compared, step by step."""

    scale: Any
    good_steps: Any
    applied: Any


def values(seed: int, steps: int) -> Any:
    """A gradient value for each step: bad with a probability that wanders between almost never and mostly."""
    rng = np.random.default_rng(seed)
    odds = np.repeat(rng.choice([0.0, 0.01, 0.3, 0.9], size=steps // 50 + 1), 50)[:steps]
    bad = rng.choice(BAD_VALUES, size=steps)
    return np.where(rng.random(steps) < odds, bad, rng.standard_normal(steps)).astype(np.float32)


def choose_single(condition: Any, if_true: Any, if_false: Any) -> Any:
    chosen = if_true if condition else if_false
    return np.float32(chosen) if isinstance(chosen, float) else chosen


def pure(law: Law, numbers: Any) -> tuple[Trace, StepCounts]:
    state, counts, rows = State(np.float32(law.initial), 0, 0), StepCounts(), []
    for finite in np.isfinite(numbers).tolist():
        state = after(law, state, finite=finite, where=choose_single)
        counts = counted(counts, finite=finite, where=choose_single)
        rows.append((state.scale, state.good_steps, finite))
    return Trace(*map(np.array, zip(*rows, strict=True))), counts


def dynamic(law: Law) -> DynamicLossScale:
    return DynamicLossScale(
        law.initial,
        law.increment_period,
        law.multiplier,
        floor=law.floor,
        ceiling=law.ceiling,
        tolerance=law.tolerance,
    )


def looped(scale: DynamicLossScale, numbers: tf.Tensor) -> Trace:
    """The trace, run in one loop of the graph being built."""

    def body(step: tf.Tensor, *rows: tf.TensorArray) -> tuple[Any, ...]:
        operation, applied = scale.update([numbers[step]])
        with tf.control_dependencies([operation]):
            now = (scale(), tf.convert_to_tensor(scale.good_steps), applied)
            written = [row.write(step, value) for row, value in zip(rows, now, strict=True)]
        with tf.control_dependencies([row.flow for row in written]):
            return (step + 1, *written)

    rows = [tf.TensorArray(dtype, STEPS) for dtype in (tf.float32, tf.int64, tf.bool)]
    _, *written = tf.while_loop(lambda step, *_: step < STEPS, body, [tf.constant(0), *rows], parallel_iterations=1)
    return Trace(*(row.stack() for row in written))


def in_function(law: Law, numbers: Any, *, jit: bool) -> tuple[Trace, StepCounts]:
    scale = dynamic(law)
    run = tf.function(lambda given: looped(scale, given), jit_compile=jit, autograph=False)
    trace = Trace(*(column.numpy() for column in run(tf.constant(numbers))))
    return trace, StepCounts(*(scale.weight(name).numpy() for name in StepCounts._fields))


def in_graph(law: Law, numbers: Any) -> tuple[Trace, StepCounts]:
    with tf.Graph().as_default():
        scale = dynamic(law)
        trace, weights = looped(scale, tf.constant(numbers)), [scale.weight(name) for name in StepCounts._fields]
        with tf.compat.v1.Session() as session:
            session.run(tf.compat.v1.global_variables_initializer())
            return Trace(*session.run(list(trace))), StepCounts(*session.run(weights))


def in_eager(law: Law, numbers: Any) -> tuple[Trace, StepCounts]:
    scale, rows = dynamic(law), []
    for number in numbers:
        operation, applied = scale.update([tf.constant(number)])
        assert operation is None
        rows.append((scale().numpy(), scale.good_steps, bool(applied)))
    counts = StepCounts(*(scale.weight(name).numpy() for name in StepCounts._fields))
    return Trace(*map(np.array, zip(*rows, strict=True))), counts


def assert_same(ours: tuple[Trace, StepCounts], reference: tuple[Trace, StepCounts]) -> None:
    for column, expected in zip(ours[0], reference[0], strict=True):
        np.testing.assert_array_equal(column, expected)
    assert tuple(map(int, ours[1])) == tuple(reference[1])


@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.parametrize("form", ["function", pytest.param("graph", marks=pytest.mark.slow)])
def test_100000_random_steps_equal_the_pure_machine(form: str, law: Law) -> None:
    numbers = values(LAWS.index(law), STEPS)
    ours = in_graph(law, numbers) if form == "graph" else in_function(law, numbers, jit=False)
    assert_same(ours, pure(law, numbers))


@pytest.mark.parametrize("law", LAWS[:3], ids=repr)
def test_random_steps_compiled_by_xla_equal_the_pure_machine(law: Law) -> None:
    numbers = values(LAWS.index(law), STEPS)
    assert_same(in_function(law, numbers, jit=True), pure(law, numbers))


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_random_eager_steps_equal_the_pure_machine(law: Law) -> None:
    numbers = values(LAWS.index(law), 100)
    assert_same(in_eager(law, numbers), pure(law, numbers))


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_100000_random_eager_steps_equal_the_pure_machine(law: Law) -> None:
    numbers = values(LAWS.index(law), STEPS)
    assert_same(in_eager(law, numbers), pure(law, numbers))


DOCUMENTED = [
    ((1, 2, 2.0), "gggggg", [1, 2, 2, 4, 4, 8]),
    ((16, 2, 2.0), "bbbbbb", [8, 4, 2, 1, 1, 1]),
    ((4, 2, 3.0), "ggbgg", [4, 12, 4, 4, 12]),
    ((2**15, 2000, 2.0), "b" * 20, [max(2.0**15 / 2**step, 1) for step in range(1, 21)]),
    ((2.0**124, 1, 2.0), "g" * 6, [2.0**125, 2.0**126] + [2.0**127] * 4),
]


@pytest.mark.parametrize(("arguments", "story", "scales"), DOCUMENTED)
def test_documented_trace(arguments: tuple[Any, ...], story: str, scales: list[float]) -> None:
    scale, got = DynamicLossScale(*arguments), []
    for step in story:
        scale.update([tf.constant([1.0, 2.0 if step == "g" else np.nan])])
        got.append(float(scale()))
    assert got == scales


@pytest.mark.parametrize("seed", range(3))
def test_random_traces_equal_tensorflows_own_loss_scale(seed: int) -> None:
    arguments = [(2**15, 2000, 2.0), (64, 2, 2.0), (4, 3, 3.0)][seed]
    ours, theirs = DynamicLossScale(*arguments), tf.compat.v1.mixed_precision.DynamicLossScale(*arguments)
    for number in values(seed, 200):
        gradient = [tf.constant(number)]
        assert bool(ours.update(gradient)[1]) == bool(theirs.update(gradient)[1])
        assert float(ours()) == float(theirs())
