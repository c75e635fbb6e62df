"""The advice on loss scales: enough for the smallest gradient, never too much for the largest, and true of training."""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from tests.tensorflow.numerics.numpy_counts import bits_of

import mixdown
from mixdown.numerics.scale import HEADROOM, advise
from mixdown.numerics.tally import Tally
from mixdown.rules.formats import BOUNDARIES, EXPONENTS

ON_CPU = mixdown.Policy(devices="all")


def tally_of(values: list[float]) -> Tally:
    bits = [bits_of(value) for value in values]
    histogram = [sum(1 for each in bits if each >> 23 == exponent) for exponent in range(EXPONENTS)]
    reached = tuple(sum(1 for each in bits if each >= edge) for edge in BOUNDARIES)
    return Tally(len(bits), tuple(histogram), reached, max(bits), min(each for each in bits if each))


SIZES = st.floats(-40.0, 14.0).map(lambda exponent: float(np.float32(2.0**exponent)))


@given(st.lists(SIZES, min_size=1, max_size=8))
def test_no_gradient_overflows_under_the_advised_scale_and_headroom_is_left(sizes: list[float]) -> None:
    advice = advise([tally_of(sizes)])
    assert advice is not None
    assert np.isfinite(np.float16(max(sizes) * advice.dynamic)) or advice.dynamic == 1.0
    assert max(sizes) * advice.fixed <= 65504 / 2**HEADROOM or advice.fixed == 1.0


@given(st.lists(SIZES, min_size=1, max_size=8))
def test_no_gradient_vanishes_under_the_advised_scale_unless_the_largest_stands_against_it(sizes: list[float]) -> None:
    advice = advise([tally_of(sizes)])
    assert advice is not None
    room = max(sizes) * advice.fixed * 2 * 2**HEADROOM <= 65504
    assert not room or min(sizes) * advice.fixed >= 2.0**-14


@given(st.lists(SIZES, min_size=1, max_size=8), st.integers(-10, 10))
def test_advice_does_not_depend_on_the_scale_it_was_measured_under(sizes: list[float], power: int) -> None:
    scaled = advise([tally_of([size * 2.0**power for size in sizes])], loss_scale=2.0**power)
    assert scaled == advise([tally_of(sizes)])


def test_zeros_give_no_advice() -> None:
    assert advise([Tally(3, (3, *[0] * 255), (0,) * len(BOUNDARIES), 0, 0x7F800000)]) is None


def backward(scale: float, upstream: float) -> Any:
    """A step whose gradients lie between 2**-27 and 2**-24 times the scale, and what they are."""
    w = tf.Variable(tf.eye(16))
    x = tf.constant(np.random.default_rng(5).uniform(1.0, 8.0, (64, 16)).astype(np.float32)) / 64.0

    @tf.function
    def step() -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.matmul(x, w)) * (scale * upstream)
        return tape.gradient(loss, w)

    return step


def test_gradient_mass_between_2_to_the_minus_27_and_minus_24_needs_a_scale_of_at_least_8() -> None:
    plain = backward(1.0, 2.0**-27)
    reference = plain().numpy()
    inside = (reference >= 2.0**-27) & (reference <= 2.0**-24)
    assert inside.all()
    advice = mixdown.numerics.statistics(plain, policy=ON_CPU).scale
    assert advice is not None
    assert advice.fixed >= 8
    with mixdown.rewriting(ON_CPU):
        lost, scaled = plain().numpy(), backward(advice.fixed, 2.0**-27)().numpy() / advice.fixed
    assert not np.allclose(lost, reference, rtol=0.05)
    np.testing.assert_allclose(scaled, reference, rtol=0.01)
    assert mixdown.numerics.locate(backward(advice.fixed, 2.0**-27), policy=ON_CPU) is None


@pytest.mark.parametrize("upstream", [1.0, 2.0**-7, 0.013])
def test_the_predicted_dynamic_scale_is_where_overflow_begins(upstream: float) -> None:
    advice = mixdown.numerics.statistics(backward(1.0, upstream), policy=ON_CPU).scale
    assert advice is not None

    def overflows(scale: float) -> bool:
        with mixdown.rewriting(ON_CPU):
            return not np.isfinite(backward(scale, upstream)().numpy()).all()

    real = next(2.0**power for power in count() if overflows(2.0 ** (power + 1)))
    assert advice.dynamic == real
    assert advice.start_skips == max(0, 15 - int(np.log2(real)))
