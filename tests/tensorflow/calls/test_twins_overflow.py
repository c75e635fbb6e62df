"""Wherever a product stands, and whatever kind it is, it overflows in a twin and only there: it ran in float16."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tests.tensorflow.calls.twins_probe import ON_CPU, executed

import mixdown

LARGE = tf.constant([[300.0]])  # its square is finite in float32 and infinite in float16


def square(x: Any) -> Any:
    return tf.matmul(x, x)


def plain() -> Callable[[Any], Any]:
    return tf.function(square)


def nested() -> Callable[[Any], Any]:
    inner = tf.function(square)
    return tf.function(lambda x: tf.identity(inner(x)))


def compiled_inside() -> Callable[[Any], Any]:
    inner = tf.function(square, jit_compile=True)
    return tf.function(lambda x: tf.identity(inner(x)))


def with_signature() -> Callable[[Any], Any]:
    return tf.function(square, input_signature=[tf.TensorSpec([None, None], tf.float32)])


def concrete() -> Callable[[Any], Any]:
    return tf.function(square).get_concrete_function(tf.TensorSpec([1, 1]))


def wrapped() -> Callable[[Any], Any]:
    return tf.compat.v1.wrap_function(square, [tf.TensorSpec([1, 1])])


def pruned() -> Callable[[Any], Any]:
    whole = tf.compat.v1.wrap_function(lambda x: (square(x), tf.exp(x)), [tf.TensorSpec([1, 1])])
    return whole.prune(whole.inputs[0], whole.outputs[0])


def method() -> Callable[[Any], Any]:
    class Squarer(tf.Module):
        @tf.function
        def __call__(self, x: Any) -> Any:
            return square(x)

    return Squarer()


def in_while() -> Callable[[Any], Any]:
    step = lambda i, a, x: (i + 1, tf.matmul(a, x), x)  # noqa: E731 - a loop body
    return tf.function(lambda x: tf.while_loop(lambda i, *_: i < 1, step, (0, x, x))[1])


def in_autograph_for() -> Callable[[Any], Any]:
    @tf.function
    def call(x: Any) -> Any:
        for _ in tf.range(1):
            x = tf.matmul(x, x)
        return x

    return call


def in_cond() -> Callable[[Any], Any]:
    return tf.function(lambda x: tf.cond(x[0, 0] > 0.0, lambda: square(x), lambda: x))


def in_case() -> Callable[[Any], Any]:
    return tf.function(lambda x: tf.switch_case(tf.cast(x[0, 0] > 0.0, tf.int32), [lambda: x, lambda: square(x)]))


def in_map() -> Callable[[Any], Any]:
    return tf.function(lambda x: tf.map_fn(square, x[None])[0])


def in_scan() -> Callable[[Any], Any]:
    return tf.function(lambda x: tf.scan(tf.matmul, x[None], initializer=x)[0])


def in_fold() -> Callable[[Any], Any]:
    return tf.function(lambda x: tf.foldl(tf.matmul, x[None], initializer=x))


def vectorized() -> Callable[[Any], Any]:
    return tf.function(lambda x: tf.vectorized_map(square, x[None])[0])


def beside_python() -> Callable[[Any], Any]:
    return tf.function(lambda x: square(tf.ensure_shape(tf.py_function(tf.identity, [x], tf.float32), (1, 1))))


def with_custom_gradient() -> Callable[[Any], Any]:
    @tf.custom_gradient
    def own(x: Any) -> Any:
        return square(x), lambda upstream: upstream

    return tf.function(own)


def recomputed() -> Callable[[Any], Any]:
    return tf.function(tf.recompute_grad(square))


NEEDS_ROUNDING_XLA = pytest.mark.skipif(
    tf.__version__.startswith("2.16."), reason="XLA of TensorFlow 2.16 does not round a product that is widened at once"
)

WAYS = [
    plain,
    nested,
    pytest.param(compiled_inside, marks=NEEDS_ROUNDING_XLA),
    with_signature,
    concrete,
    wrapped,
    pruned,
    method,
    in_while,
    in_autograph_for,
    in_cond,
    in_case,
    in_map,
    in_scan,
    in_fold,
    vectorized,
    beside_python,
    with_custom_gradient,
    recomputed,
]


@pytest.mark.parametrize("way", WAYS)
def test_a_product_overflows_only_inside_the_block(way: Callable[[], Callable[[Any], Any]]) -> None:
    call = way()
    assert call(LARGE).numpy().item() == 90_000.0
    with mixdown.rewriting(ON_CPU):
        assert np.isinf(call(LARGE).numpy().item())
    assert call(LARGE).numpy().item() == 90_000.0


IMAGE, VOLUME = tf.fill((1, 1, 1, 1), 300.0), tf.fill((1, 1, 1, 1, 1), 300.0)
PIXEL, VOXEL = [1] * 4, [1] * 5
PRODUCTS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "MatMul": (LARGE, square),
    "BatchMatMulV2": (LARGE[None], square),
    "Einsum": (LARGE, lambda x: tf.einsum("ij,jk->ik", x, x)),
    "Conv2D": (IMAGE, lambda x: tf.nn.conv2d(x, x, 1, "SAME")),
    "Conv2DBackpropInput": (IMAGE, lambda x: tf.nn.conv2d_transpose(x, x, PIXEL, 1)),
    "Conv2DBackpropFilter": (
        IMAGE,
        lambda x: tf.raw_ops.Conv2DBackpropFilter(
            input=x, filter_sizes=PIXEL, out_backprop=x, strides=PIXEL, padding="SAME"
        ),
    ),
    "Conv3D": (VOLUME, lambda x: tf.nn.conv3d(x, x, VOXEL, "SAME")),
    "Conv3DBackpropInputV2": (VOLUME, lambda x: tf.nn.conv3d_transpose(x, x, VOXEL, 1)),
    "Conv3DBackpropFilterV2": (
        VOLUME,
        lambda x: tf.raw_ops.Conv3DBackpropFilterV2(
            input=x, filter_sizes=VOXEL, out_backprop=x, strides=VOXEL, padding="SAME"
        ),
    ),
    "DepthwiseConv2dNative": (IMAGE, lambda x: tf.nn.depthwise_conv2d(x, x, PIXEL, "SAME")),
    "DepthwiseConv2dNativeBackpropInput": (
        IMAGE,
        lambda x: tf.nn.depthwise_conv2d_backprop_input(PIXEL, x, x, PIXEL, "SAME"),
    ),
    "DepthwiseConv2dNativeBackpropFilter": (
        IMAGE,
        lambda x: tf.nn.depthwise_conv2d_backprop_filter(x, PIXEL, x, PIXEL, "SAME"),
    ),
}


@pytest.mark.parametrize("kind", PRODUCTS)
def test_every_kind_of_product_overflows(kind: str) -> None:
    large, product = PRODUCTS[kind]
    function = tf.function(product)
    assert function(large).numpy().item() == 90_000.0
    with mixdown.rewriting(ON_CPU):
        ran = executed(lambda: function(large))
    assert np.isinf(ran.value.numpy().item())
    assert ran.all_low(kind)


@pytest.mark.parametrize("kind", PRODUCTS)
def test_every_kind_of_compiled_product_is_what_a_cast_by_hand_makes_of_it(kind: str) -> None:
    """Not always infinite: some releases of XLA keep more digits between two ops than their dtype has."""
    large, product = PRODUCTS[kind]
    by_hand = tf.function(lambda x: tf.cast(product(tf.cast(x, "float16")), "float32"), jit_compile=True)
    function = tf.function(product, jit_compile=True)
    assert function(large).numpy().item() == 90_000.0
    with mixdown.rewriting(ON_CPU):
        ran = executed(lambda: function(large))
    assert ran.all_low(kind)
    np.testing.assert_array_equal(ran.value, by_hand(large))
