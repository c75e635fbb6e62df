"""Long traces of finite and non-finite steps, against the pure machine and counts."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tests.tensorflow.loss_scaling.optimizers.tf_keras_training import STYLES, bare, wrapped

import mixdown
from mixdown.scaling import Law, StepCounts, after, counted, start

LAW = Law(initial=2.0**10, increment_period=3, multiplier=2.0, floor=0.25, ceiling=2.0**20, tolerance=2)


@pytest.fixture(params=STYLES)
def style(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def run(optimizer: Any, trace: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The scale after each step of a trace, and the value of a variable from which each applied step takes 1."""
    v = tf.Variable(0.0, name="v")
    optimizer.inner_optimizer.learning_rate = 1.0

    @tf.function
    def loop(finite: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        scales = tf.TensorArray(tf.float32, size=tf.size(finite))
        values = tf.TensorArray(tf.float32, size=tf.size(finite))
        for at in tf.range(tf.size(finite)):
            factor = tf.where(finite[at], 1.0, np.nan)
            optimizer.minimize(lambda factor=factor: v * factor, [v])
            scales, values = scales.write(at, optimizer.loss_scale), values.write(at, v)
        return scales.stack(), values.stack()

    scales, values = loop(tf.constant(trace))
    return scales.numpy(), values.numpy()


def machine(law: Law, trace: np.ndarray) -> tuple[list[float], list[int], Any, Any]:
    """The same by the pure machine: scales, steps applied so far, the last state and counts."""

    def where(condition: Any, if_true: Any, if_false: Any) -> Any:
        return if_true if condition else if_false

    state, counts, scales, applied = start(law), StepCounts(), [], []
    for finite in trace.tolist():
        state = after(law, state, finite=finite, where=where)
        counts = counted(counts, finite=finite, where=where)
        scales.append(state.scale)
        applied.append(counts.steps - counts.skipped_steps)
    return scales, applied, state, counts


def test_fifty_thousand_random_steps_equal_the_machine(style: str) -> None:
    dice = np.random.default_rng(7)
    # Good and bad stretches, so that both bounds are reached and rested at.
    trace = np.concatenate([dice.random(500) < share for share in dice.random(100)])
    scale = mixdown.DynamicLossScale(
        LAW.initial, LAW.increment_period, LAW.multiplier, floor=LAW.floor, ceiling=LAW.ceiling, tolerance=LAW.tolerance
    )
    optimizer = wrapped(bare(style, "SGD"), scale, skip_limit=50_000)
    scales, values = run(optimizer, trace)
    expected, applied, state, counts = machine(LAW, trace)
    assert scales.tolist() == expected
    assert values.tolist() == [-float(each) for each in applied]
    assert {LAW.floor, LAW.ceiling} <= set(expected)
    assert (optimizer.good_steps, optimizer.steps) == (state.good_steps, 50_000)
    assert optimizer.skipped_steps == counts.skipped_steps
    assert optimizer.last_skipped_step == counts.last_skipped_step
    assert optimizer.skips_in_a_row == counts.skips_in_a_row


def test_two_hundred_bad_steps_then_a_good_one_leave_a_usable_scale(style: str) -> None:
    optimizer = wrapped(bare(style, "SGD"), skip_limit=1000)
    scales, values = run(optimizer, np.array([False] * 200 + [True]))
    assert scales.min() == scales[-1] == 1.0
    assert values.tolist() == [0.0] * 200 + [-1.0]


def test_a_hundred_and_thirty_growths_stop_at_the_largest_finite_scale(style: str) -> None:
    optimizer = wrapped(bare(style, "SGD"), mixdown.DynamicLossScale(1.0, 1))
    scales, values = run(optimizer, np.array([True] * 130 + [False, True]))
    assert scales.tolist() == [*(2.0**n for n in range(1, 128)), 2.0**127, 2.0**127, 2.0**127, 2.0**126, 2.0**127]
    assert values.tolist() == [*(-float(n) for n in range(1, 131)), -130.0, -131.0]
