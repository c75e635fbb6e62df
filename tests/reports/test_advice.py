"""Tensor Core advice: the rule of the documentation, and which dimensions it is applied to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixdown.reports.advice import (
    Dimensions,
    Product,
    advise,
    better_size,
    convolution,
    einsum,
    is_good,
    matmul,
)
from mixdown.reports.model import Advice

sizes = st.integers(1, 5000)


@given(sizes)
def test_good_is_a_power_of_two_below_256_and_a_multiple_of_8_above(size: int) -> None:
    powers = [2**power for power in range(9)]
    assert is_good(size) == (size in powers if size <= 256 else size % 8 == 0)


@given(sizes)
def test_the_better_size_is_good_and_none_is_nearer(size: int) -> None:
    better = better_size("batch size", size)
    assert is_good(better)
    assert not any(is_good(size + off) or is_good(size - off) for off in range(abs(better - size)) if size > off)


@pytest.mark.parametrize(
    ("size", "better"), [(3, 4), (5, 4), (6, 8), (96, 128), (95, 64), (100, 128), (255, 256), (257, 256), (260, 264)]
)
def test_of_two_sizes_that_are_equally_near_the_larger_is_better(size: int, better: int) -> None:
    assert better_size("batch size", size) == better


@given(sizes)
def test_a_layer_never_shrinks(size: int) -> None:
    better = better_size("output size", size)
    assert better == min(larger for larger in range(size, 2 * size + 8) if is_good(larger))


def test_ten_classes_become_sixteen() -> None:
    assert [each.better for each in advise(NAMES[:1], [Product(0, matmul((8, 64), (64, 10)))])] == [16]


NAMES = ["model/dense/MatMul", "gradient_tape/model/dense/MatMul/MatMul", "gradient_tape/model/dense/MatMul/MatMul_1"]


def test_a_gradient_repeats_the_dimensions_of_its_layer() -> None:
    forward = Product(0, matmul((64, 100), (100, 1000)))
    weights = Product(1, matmul((64, 100), (64, 1000), flip_left=True))
    inputs = Product(2, matmul((64, 1000), (100, 1000), flip_right=True))
    assert advise(NAMES, [weights, inputs, forward]) == (Advice("model/dense", "input size", 100, 128, tuple(NAMES)),)


def test_two_dimensions_of_one_size_are_two() -> None:
    (first, second) = advise(NAMES[:1], [Product(0, matmul((8, 100), (100, 100)))])
    assert (first.dimension, second.dimension) == ("input size", "output size")


def test_what_is_aligned_or_not_known_gets_no_advice() -> None:
    aligned = Product(0, matmul((None, 128), (128, 1000)))
    unknown = Product(0, matmul(None, None))
    assert advise(NAMES, [aligned, unknown]) == ()


MATMULS = [
    (matmul((2, 3), (3, 5)), (2, 3, 5)),
    (matmul((3, 2), (3, 5), flip_left=True), (2, 3, 5)),
    (matmul((2, 3), (5, 3), flip_right=True), (2, 3, 5)),
    (matmul((7, 2, 3), (7, 3, 5)), (2, 3, 5)),
    (matmul(None, (3, 5)), (None, 3, 5)),
    (matmul((2, 3), (None, 5)), (2, 3, 5)),
    (einsum("abc,cde->abde", (2, 7, 3), (3, 5, 11)), (14, 3, 55)),
    (einsum("abc, cd -> abd", (2, None, 3), (3, 5)), (None, 3, 5)),
]


@pytest.mark.parametrize(("found", "expected"), MATMULS)
def test_a_product_has_rows_an_inner_size_and_columns(found: Dimensions, expected: tuple[int, ...]) -> None:
    assert found == tuple(zip(("batch size", "input size", "output size"), expected, strict=True))


@pytest.mark.parametrize("equation", ["ab->ba", "...ab,bc->...ac", "ab,bc", "ab,bc,cd->ad", "abc,cd->abd"])
def test_an_einsum_of_another_form_is_left_alone(equation: str) -> None:
    assert einsum(equation, (2, 3), (3, 5)) == ()


CONVOLUTIONS = [
    convolution((2, 9, 9, 3), (4, 4, 3, 5), None),
    convolution((2, 3, 9, 9), (4, 4, 3, 5), None, channels_first=True),
    convolution((2, 9, 9, 3), None, (2, 6, 6, 5)),
    convolution(None, (4, 4, 3, 5), (2, 6, 6, 5)),
]


@pytest.mark.parametrize("found", CONVOLUTIONS)
def test_a_convolution_and_its_gradients_have_the_same_dimensions(found: Dimensions) -> None:
    assert found == (("batch size", 2), ("input channels", 3), ("output channels", 5))
