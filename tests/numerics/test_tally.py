"""The counts of a tensor equal NumPy's to the last element, whatever the numbers."""

import hypothesis.extra.numpy as numbers
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tensorflow.numerics.numpy_counts import bits_of, counted, told

from mixdown.numerics.tally import Tally
from mixdown.rules.formats import BOUNDARIES, value_of
from mixdown.tensorflow.numerics.probing.counts import summary

# Every float32 is equally likely by its bits, and the neighbours of every boundary are likely.
BITS = st.one_of(
    st.integers(0, 2**32 - 1),
    st.builds(lambda edge, step: max(edge + step, 0), st.sampled_from(BOUNDARIES), st.integers(-2, 2)),
)


def tally_of(values: np.ndarray) -> Tally:
    return Tally.from_vector(summary()(tf.constant(values)).numpy().tolist())


@settings(max_examples=100, deadline=None)
@given(numbers.arrays(np.uint32, numbers.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=20), elements=BITS))
def test_counts_equal_numpy_for_any_bits(bits: np.ndarray) -> None:
    values = bits.view(np.float32) if bits.ndim else np.frombuffer(bits.tobytes(), np.float32)[0]
    assert told(tally_of(values)) == counted(values)


# What float16 can hold takes a shorter way, and its boundaries are where that way may go wrong.
HELD = st.one_of(
    st.integers(bits_of(2.0**-30), bits_of(65519.0)),
    st.builds(lambda edge, step: edge + step, st.sampled_from([0x33000001, 0x387FE000]), st.integers(-2, 2)),
    st.integers(-24, 15).map(lambda exponent: bits_of(2.0**exponent) - 1),
    st.just(0),
)


@settings(max_examples=100, deadline=None)
@given(numbers.arrays(np.uint32, st.integers(0, 30), elements=HELD), st.booleans())
def test_counts_equal_numpy_for_numbers_that_float16_holds(bits: np.ndarray, negative: bool) -> None:  # noqa: FBT001 - drawn
    values = bits.view(np.float32) * np.float32(-1 if negative else 1)
    assert told(tally_of(values)) == counted(values)


@settings(max_examples=30, deadline=None)
@given(*[numbers.arrays(np.uint32, 15, elements=BITS)] * 2)
def test_tallies_add_up(one: np.ndarray, other: np.ndarray) -> None:
    first, second = one.view(np.float32), other.view(np.float32)
    assert told(tally_of(first) + tally_of(second)) == counted(np.concatenate([first, second]))


@settings(max_examples=30, deadline=None)
@given(numbers.arrays(np.uint32, 15, elements=BITS))
def test_a_tally_comes_back_from_plain_data(bits: np.ndarray) -> None:
    tally = tally_of(bits.view(np.float32))
    assert Tally.from_dict(tally.to_dict()) == tally


def test_a_million_numbers_of_all_sizes() -> None:
    rng = np.random.default_rng(7)
    values = (rng.standard_normal(1_000_000) * 2.0 ** rng.uniform(-60, 30, 1_000_000)).astype(np.float32)
    assert told(tally_of(values)) == counted(values)


@pytest.mark.parametrize("edge", BOUNDARIES[:-1])
def test_bits_and_values_are_two_names_of_one_number(edge: int) -> None:
    assert bits_of(value_of(edge)) == edge
