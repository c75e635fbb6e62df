"""What cannot work with a tf_keras loss-scale optimizer, and what is said about it."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from tests.tensorflow.loss_scaling.optimizers.tf_keras_training import STYLES, bare, one_variable, wrapped

import mixdown
from mixdown.errors import LossScaleWarning


@pytest.fixture(params=STYLES)
def style(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def wrapped_twice(style: str) -> Any:
    return wrapped(wrapped(bare(style)))


def wrapped_by_two(style: str) -> Any:
    inner = bare(style)
    return wrapped(inner), wrapped(inner)


def wrapped_by_tf_keras_first(style: str) -> Any:
    inner = bare(style)
    return tf_keras.mixed_precision.LossScaleOptimizer(inner), wrapped(inner)


def applied_across_replicas(style: str) -> Any:
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    with strategy.scope():
        optimizer, v = one_variable(style)
        optimizer.apply_gradients([(tf.ones(2), v)])


def given_too_few_weights(style: str) -> Any:
    optimizer, v = one_variable(style)
    optimizer.minimize(lambda: tf.reduce_sum(v), [v])
    optimizer.set_weights([np.zeros(())] * 4)


def without_a_tape(style: str) -> Any:
    optimizer, v = one_variable(style)
    optimizer.minimize(tf.constant(1.0), [v])


def without_gradients(style: str) -> Any:
    optimizer, v = one_variable(style)
    optimizer.apply_gradients([(None, v)])


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (wrapped_twice, ValueError, r"cannot wrap TfKeras\w*, which scales the loss already. Pass the bare optimizer"),
        (wrapped_by_two, ValueError, r"This Adam is wrapped by another LossScaleOptimizer already.*make a new"),
        (wrapped_by_tf_keras_first, ValueError, "This Adam is wrapped by another LossScaleOptimizer already"),
        (applied_across_replicas, RuntimeError, r"in a replica context, got cross-replica.*passed to strategy\.run"),
        (given_too_few_weights, ValueError, r"\d+ variables of its inner optimizer and 9 of the loss scale, got 4"),
        (without_a_tape, ValueError, "`tape` is required"),
        (without_gradients, ValueError, "No gradients provided for any variable"),
    ],
)
def test_what_cannot_work_is_refused_with_the_way_out(style: str, wrong: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        wrong(style)


@pytest.mark.parametrize("wrong", ["adam", None, object()])
def test_only_an_optimizer_of_the_right_kind_can_be_wrapped(style: str, wrong: Any) -> None:
    kind = type(wrapped(bare(style)))
    other = bare("legacy" if style == "new" else "new")
    for each in (wrong, other):
        with pytest.raises(TypeError, match=rf"{kind.__name__} needs a tf_keras\.optimizers\.\S+, got .*picks the"):
            kind(each)


@pytest.mark.parametrize(
    ("scale", "unscale", "message"),
    [
        (False, False, "loss that was never scaled: they may underflow"),
        (False, True, "the loss was never scaled: every gradient is too small"),
        (True, False, "the gradients were never unscaled: every one is too large"),
    ],
)
def test_forgetting_to_scale_or_unscale_is_said_once(style: str, *, scale: bool, unscale: bool, message: str) -> None:
    optimizer, v = one_variable(style)
    if scale:
        optimizer.get_scaled_loss(tf.constant(1.0))
    if unscale:
        optimizer.get_unscaled_gradients([tf.constant(1.0)])
    with pytest.warns(LossScaleWarning, match=message + ".*or let optimizer.minimize do both"):
        optimizer.apply_gradients([(tf.ones(2), v)])
    optimizer.apply_gradients([(tf.ones(2), v)])
    assert int(optimizer.iterations) == 2
    assert any(message in warning for warning in mixdown.report().warnings)
