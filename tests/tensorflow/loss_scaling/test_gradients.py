"""The finite check against NumPy, on dense and sparse gradients of every float dtype."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from mixdown.tensorflow.loss_scaling.gradients import all_finite, codes, unscaler

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


def test_a_compiled_check_takes_gradients_whose_rank_is_not_known_when_it_is_traced() -> None:
    check = tf.function(lambda each: codes([each]), input_signature=[tf.TensorSpec(None)], jit_compile=True)
    assert check(tf.constant([[1.0, np.nan]])).numpy().tolist() == [2]


def test_xla_is_given_one_pass_over_each_gradient() -> None:
    gradients = [tf.ones([2, 3]), tf.ones([4]), tf.ones([5, 2, 2])]
    check = tf.function(lambda *each: codes(each), jit_compile=True)
    text = check.experimental_get_compiler_ir(*gradients)(stage="hlo")
    assert text.count(" reduce(") == len(gradients)
    assert "conditional" not in text


SCALES = [2.0**-126, 0.25, 1.0, 2.0**15, 2.0**64, 2.0**65, 2.0**100, 2.0**126, 2.0**127]
NUMBERS = np.array([1.0, -3.0, 2.0**-20, 1.5 * 2.0**-100, 2.0**120, -(2.0**127), 1.1754944e-38], np.float32)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("jit", [False, True])
def test_powers_of_two_divide_exactly(scale: float, *, jit: bool) -> None:
    unscaled = tf.function(lambda each, by: unscaler(by)(each), jit_compile=jit)(NUMBERS, tf.constant(scale))
    with np.errstate(over="ignore"):
        exact = NUMBERS / np.float32(scale)
    normal = np.abs(exact) >= np.finfo(np.float32).tiny  # processors may flush what is smaller to 0
    np.testing.assert_array_equal(unscaled.numpy()[normal], exact[normal])


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("scale", [3.0, 1000.1, 3.4e38])
def test_other_scales_divide_compiled_gradients_to_the_last_bits(dtype: tf.DType, scale: float) -> None:
    numbers = tf.constant([1.0, -7.25, 60000.0], dtype) * tf.cast(min(scale, 1e30), dtype)
    numbers = tf.where(tf.math.is_finite(numbers), numbers, tf.ones_like(numbers))
    unscaled = tf.function(lambda each, by: unscaler(by)(each), jit_compile=True)(numbers, tf.constant(scale))
    exact = numbers.numpy().astype(np.float64) / np.float64(np.float32(scale))
    tiny = 2.0**-24 if dtype == tf.float16 else 0.0  # a quotient may be smaller than that
    np.testing.assert_allclose(unscaled.numpy().astype(np.float64), exact, rtol=2 * eps(dtype), atol=tiny)


def eps(dtype: tf.DType) -> float:
    return 2.0 ** -{tf.float16: 10, tf.bfloat16: 7, tf.float32: 23, tf.float64: 52}[dtype]


def test_xla_is_given_no_division_of_a_gradient() -> None:
    gradient = tf.ones([2, 3])
    unscale = tf.function(lambda each, by: unscaler(by)(each), jit_compile=True)
    text = unscale.experimental_get_compiler_ir(gradient, tf.constant(2.0))(stage="hlo")
    assert [line for line in text.splitlines() if " divide(" in line and "f32[2,3]" in line] == []
