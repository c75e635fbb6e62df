"""The batch normalization of Keras 3 runs as one 16-bit op with float32 statistics, and its gradient as another."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tests.tensorflow.calls.twins_probe import BFLOAT16, ON_CPU, arrays, executed
from tests.tensorflow.fusing.norm_models import IMAGES, layered, model, moving, spelled_out, step

import mixdown

FORWARD, BACKWARD = "FusedBatchNormV3", "FusedBatchNormGradV3"
TOLERANCES = {"float16": 0.01, "bfloat16": 0.1}
VARIANTS: dict[str, dict[str, Any]] = {
    "axis -1": {},
    "axis 3": {"axis": 3},
    "no scale": {"scale": False},
    "no scale, axis 3": {"scale": False, "axis": 3},
    "read by others": {"shared": True},
}


def largest_error(found: Any, expected: Any) -> float:
    """The largest difference of two structures, each tensor's against its own largest value."""
    pairs = zip(arrays(found), arrays(expected), strict=True)
    return max(float(np.abs(one - other).max() / np.abs(other).max()) for one, other in pairs)


@pytest.mark.parametrize("batch", [8, None], ids=["known", "unknown"])
@pytest.mark.parametrize("policy", [ON_CPU, BFLOAT16], ids=lambda policy: policy.low)
@pytest.mark.parametrize("variant", VARIANTS)
def test_outputs_gradients_and_moving_averages_are_right(
    variant: str, policy: mixdown.Policy, batch: int | None
) -> None:
    net = model(**VARIANTS[variant])
    train = step(net, batch=batch)
    expected, averages = train(IMAGES), moving(net)
    with mixdown.rewriting(policy):
        ran = executed(lambda: train(IMAGES))
    mixed = moving(net)
    assert ran.dtypes(FORWARD) == [policy.low]
    assert len(ran.dtypes(BACKWARD)) == 1
    assert not ran.dtypes("SquaredDifference")
    assert largest_error(ran.value, expected) < TOLERANCES[policy.low]
    assert largest_error(mixed, averages) < TOLERANCES[policy.low]
    with mixdown.rewriting(policy.with_keep("Rsqrt")):  # a rule for a part of it keeps all of it spelled out
        plain = executed(lambda: train(IMAGES))
    assert not plain.dtypes(FORWARD)
    for one, other in zip(mixed, moving(net), strict=True):  # of the same 16-bit values, in float32
        assert one.dtype == np.float32
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)
    train(IMAGES)
    for one, other in zip(moving(net), averages, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("policy", [ON_CPU, BFLOAT16], ids=lambda policy: policy.low)
@pytest.mark.parametrize(
    ("shape", "options"),
    [((8, 16), {}), ((8, 16), {"shared": True}), ((16,), {}), ((2, 4, 16), {"epsilon": 1e-5})],
    ids=["sequences", "read by others", "rows", "images"],
)
def test_layer_normalization_is_right(shape: tuple[int, ...], options: Any, policy: mixdown.Policy) -> None:
    train = step(layered(shape, **options))
    rows = np.random.default_rng(3).normal(1.0, 2.0, (8, *shape)).astype("float32")
    expected = train(rows)
    with mixdown.rewriting(policy):
        ran = executed(lambda: train(rows))
    assert ran.dtypes(FORWARD) == [policy.low]
    assert len(ran.dtypes(BACKWARD)) == 1
    assert not ran.dtypes("SquaredDifference")
    with mixdown.rewriting(policy.with_keep("Rsqrt")):
        plain = executed(lambda: train(rows))
    assert not plain.dtypes(FORWARD)
    assert largest_error(ran.value, expected) < max(2.0 * largest_error(plain.value, expected), TOLERANCES[policy.low])


def test_it_is_as_near_to_float64_as_spelled_out() -> None:
    exact = arrays(spelled_out(dtype="float64")(IMAGES.astype("float64")))
    train, errors = spelled_out(), []
    for policy in (ON_CPU, ON_CPU.with_keep("Rsqrt")):
        with mixdown.rewriting(policy):
            errors.append(largest_error(train(IMAGES), exact))
    assert errors[0] < 0.02
    assert errors[0] < 1.5 * errors[1]


@pytest.mark.parametrize("images", [IMAGES[:1, :1, :1], IMAGES[:0]], ids=["one number", "none"])
def test_statistics_of_one_number_and_of_none(images: Any) -> None:
    """One number has the variance 0, and the mean of none is NaN, as ever."""

    @tf.function(input_signature=[tf.TensorSpec((None, None, None, 3))])
    def train(x: Any) -> Any:
        with tf.GradientTape() as tape:
            y = tf.nn.conv2d(x, kernel, 1, "SAME")
            mean, variance = tf.nn.moments(y, (0, 1, 2))
            y = tf.nn.batch_normalization(y, mean, variance, offset, scale, 1e-3)
            loss = tf.reduce_sum(tf.nn.conv2d(y, kernel, 1, "SAME") ** 2)
        return mean, variance, tape.gradient(loss, [scale, offset, kernel])

    kernel, scale, offset = (tf.Variable(tf.ones(shape)) for shape in ((3, 3, 3, 3), 3, 3))
    expected = train(images)
    with mixdown.rewriting(ON_CPU):
        ran = executed(lambda: train(images))
    assert ran.dtypes(FORWARD)
    np.testing.assert_allclose(np.stack(ran.value[:2]), np.stack(expected[:2]), rtol=1e-3)


def test_two_normalizations_of_one_value_and_one_of_another() -> None:
    keras.utils.set_random_seed(1)
    image = keras.Input((8, 8, 3))
    convolved = keras.layers.Conv2D(4, 3)(image)
    norms = [keras.layers.BatchNormalization()(convolved) for _ in range(2)]
    hidden = keras.layers.BatchNormalization()(keras.layers.Add()(norms))
    hidden = keras.layers.BatchNormalization()(hidden)  # the gradient of one is the other's
    net = keras.Model(image, keras.layers.Flatten()(keras.layers.Conv2D(4, 3)(hidden)))
    train = step(net)
    expected = train(IMAGES)
    with mixdown.rewriting(ON_CPU):
        ran = executed(lambda: train(IMAGES))
    assert len(ran.dtypes(FORWARD)) == len(ran.dtypes(BACKWARD)) == 4
    assert not ran.dtypes("SquaredDifference")
    largest = max(np.abs(each).max() for each in arrays(expected))
    for one, other in zip(arrays(ran.value), arrays(expected), strict=True):  # some gradients are 0
        np.testing.assert_allclose(one, other, atol=0.01 * largest)
