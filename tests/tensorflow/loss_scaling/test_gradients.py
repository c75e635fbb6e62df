"""The finite check against NumPy, on dense and sparse gradients of every float dtype."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from mixdown.tensorflow.loss_scaling.gradients import all_finite, codes

DTYPES = [tf.float16, tf.bfloat16, tf.float32, tf.float64]
ELEMENTS = st.sampled_from([0.0, -0.0, 1.0, -3e38, 3e38, 1e-45, np.inf, -np.inf, np.nan])
GRADIENTS = st.lists(st.one_of(st.none(), st.lists(ELEMENTS, max_size=5)), max_size=6)


def expected_code(numbers: Any) -> int:
    return int(np.isinf(numbers).any()) + 2 * int(np.isnan(numbers).any())


def tensors(gradients: list[list[float] | None]) -> list[Any]:
    return [None if each is None else tf.constant(each, tf.float32) for each in gradients]


@settings(deadline=None, max_examples=100)
@given(GRADIENTS)
def test_all_finite_and_codes_equal_numpy(gradients: list[list[float] | None]) -> None:
    expected = [0 if each is None else expected_code(np.array(each, np.float32)) for each in gradients]
    assert codes(tensors(gradients)).numpy().tolist() == expected
    assert bool(all_finite(tensors(gradients))) == (not any(expected))


def test_sums_that_overflow_are_still_finite_gradients() -> None:
    assert all_finite([tf.fill([4], 3e38), tf.fill([4], 3e38)])
    assert all_finite([tf.fill([1000], tf.constant(65504, tf.float16))])


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("jit", [False, True])
def test_every_float_dtype_in_a_function(dtype: tf.DType, *, jit: bool) -> None:
    check = tf.function(lambda *each: (all_finite(each), codes(each)), jit_compile=jit)
    good, inf, nan, both = (tf.constant([1, *bad], dtype) for bad in ([], [-np.inf], [np.nan], [np.nan, np.inf]))
    verdict, found = check(good, inf, nan, both)
    assert not verdict
    assert found.numpy().tolist() == [0, 1, 2, 3]
    assert check(good, good)[0]


def test_one_bad_gradient_of_600_is_found_wherever_it_is() -> None:
    for place in (0, 1, 299, 599):
        gradients = [tf.ones([3])] * 600
        gradients[place] = tf.constant([1.0, np.inf, 1.0])
        assert not all_finite(gradients)
        assert np.flatnonzero(codes(gradients)).tolist() == [place]


@pytest.mark.parametrize(("value", "code"), [(1.0, 0), (np.inf, 1), (np.nan, 2)])
def test_the_values_of_indexed_slices_count(value: float, code: int) -> None:
    slices = tf.IndexedSlices(tf.constant([[1.0, value]]), tf.constant([3]), tf.constant([10, 2]))
    assert bool(all_finite([None, slices])) == (code == 0)
    assert codes([None, slices]).numpy().tolist() == [0, code]


@pytest.mark.parametrize("gradients", [[], [None, None], [tf.zeros([0])], [tf.constant(1.0)]], ids=str)
def test_nothing_to_complain_about(gradients: list[Any]) -> None:
    assert all_finite(gradients)
    assert codes(gradients).numpy().tolist() == [0] * len(gradients)


@pytest.mark.parametrize("dtypes", [DTYPES])
def test_gradients_of_several_dtypes_in_one_check(dtypes: list[tf.DType]) -> None:
    gradients = [tf.ones([2], dtype) for dtype in dtypes]
    assert all_finite(gradients)
    for place, dtype in enumerate(dtypes):
        spoilt = [*gradients[:place], tf.constant([np.nan], dtype), *gradients[place + 1 :]]
        assert not all_finite(spoilt)
