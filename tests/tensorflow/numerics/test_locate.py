"""An op planted to overflow is the one that is named, in one extra run, and the run leaves no trace."""

import re
from typing import Any

import pytest
import tensorflow as tf
from tests.tensorflow.numerics.planted import MODELS

import mixdown

ON_CPU = mixdown.Policy(devices="all")


def test_there_are_twenty_models() -> None:
    assert len(MODELS) >= 20


@pytest.mark.parametrize("name", MODELS)
def test_the_planted_op_is_named_in_one_extra_run(name: str) -> None:
    model, ran = MODELS[name], 0
    step = model.build()

    def counted() -> Any:
        nonlocal ran
        ran += 1
        return step()

    location = mixdown.numerics.locate(counted, policy=ON_CPU)
    assert location is not None
    assert re.fullmatch(model.op, location.op), location.op
    assert re.fullmatch(model.kind, location.kind)
    assert location.backward == ("gradient" in model.op)
    assert location.float32 is False
    assert all(each.infs == each.nans == 0 for each in location.inputs)
    assert ran == 1


@pytest.mark.parametrize("name", ["perceptron_forward", "rnn_loop_forward", "keras_dense"])
def test_float32_is_finite_where_something_is_planted(name: str) -> None:
    """What is planted overflows float16 only, or the test above would prove little."""
    assert mixdown.numerics.locate(MODELS[name].build(), policy=ON_CPU.with_keep(name=".")) is None


def test_weights_and_generators_are_bit_identical_afterwards() -> None:
    generator = tf.random.Generator.from_seed(3)
    weights = tf.Variable(tf.random.normal([4, 4], seed=1))
    outside = tf.Variable(1.0)

    @tf.function
    def train(x: tf.Tensor) -> tf.Tensor:
        weights.assign_add(tf.matmul(weights, weights) * generator.normal([4, 4]))
        return tf.matmul(x, weights)

    def step(x: tf.Tensor) -> tf.Tensor:
        outside.assign_add(1.0)  # an eager op between functions
        return train(x)

    variables = [weights, outside, generator.state]
    before = [variable.numpy().tobytes() for variable in variables]
    assert mixdown.numerics.locate(step, tf.fill([4, 4], 65000.0), policy=ON_CPU) is not None
    assert [variable.numpy().tobytes() for variable in variables] == before
