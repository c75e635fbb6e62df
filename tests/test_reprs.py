"""What the objects of a user's program print as, in one line; and which class a wrapped optimizer is of."""

from typing import Any

import keras
import pytest
import tensorflow as tf
import tf_keras

import mixdown

POLICY = mixdown.Policy(low="bf16", devices=["gpu", "cpu"], level="tensor_cores_only").with_keep("Tanh", layer="head")  # type: ignore[arg-type]
WRAPPED: list[Any] = [
    lambda: mixdown.LossScaleOptimizer(keras.optimizers.SGD()),
    lambda: mixdown.LossScaleOptimizer(tf_keras.optimizers.SGD()),
    lambda: mixdown.LossScaleOptimizer(tf_keras.optimizers.legacy.SGD()),
]


def test_a_policy_prints_as_what_makes_it() -> None:
    assert repr(mixdown.Policy()) == "Policy()"
    assert repr(POLICY) == (
        "Policy(low='bfloat16', devices=('GPU', 'CPU'), level='tensor_cores_only').with_keep('Tanh', layer='head')"
    )
    assert eval(repr(POLICY), {"Policy": mixdown.Policy}) == POLICY  # noqa: S307 - our own text


@pytest.mark.parametrize("make", WRAPPED)
def test_a_wrapped_optimizer_is_a_loss_scale_optimizer_and_prints_in_one_line(make: Any) -> None:
    optimizer = make()
    assert isinstance(optimizer, mixdown.LossScaleOptimizer)
    assert issubclass(type(optimizer), mixdown.LossScaleOptimizer)
    assert repr(optimizer) == "<LossScaleOptimizer of SGD, dynamic scale from 32768, growing every 2000 finite steps>"


@pytest.mark.parametrize(
    "other", [keras.optimizers.SGD(), keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD()), 3]
)
def test_other_things_are_not(other: object) -> None:
    assert not isinstance(other, mixdown.LossScaleOptimizer)


def test_v1_optimizers_and_loss_scales_print_in_one_line() -> None:
    inner = tf.compat.v1.train.GradientDescentOptimizer(0.1)
    made = mixdown.MixedPrecisionLossScaleOptimizer(inner, 128)
    assert repr(made) == "<LossScaleOptimizer of GradientDescentOptimizer, fixed scale 128>"
    assert repr(mixdown.FixedLossScale(128)) == "FixedLossScale(128.0)"
    assert "\n" not in repr(mixdown.DynamicLossScale())
