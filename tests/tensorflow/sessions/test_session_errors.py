"""Errors that TensorFlow raises while it runs a twin speak of the user's graph, whichever way it was run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf.config_pb2 import CallableOptions
from tests.tensorflow.sessions.session_lab import POLICY, enabled, plainly, square, v1

from mixdown.tensorflow.sessions.twin import SessionTwin

if TYPE_CHECKING:
    from collections.abc import Callable

WRONG = np.ones((2, 2), "float32")


def by_run(session: Any, fetch: Any, feed: Any) -> None:
    session.run(fetch, {feed: WRONG})


def by_partial_run(session: Any, fetch: Any, feed: Any) -> None:
    session.partial_run(session.partial_run_setup([fetch], [feed]), fetch, {feed: WRONG})


def by_description(session: Any, fetch: Any, feed: Any) -> None:
    session._make_callable_from_options(CallableOptions(feed=[feed.name], fetch=[fetch.name]))(WRONG)


def directly(product: Any, wrong: Any) -> Any:
    return tf.matmul(product, wrong, name="culprit")


def in_a_function(product: Any, wrong: Any) -> Any:
    @tf.function(autograph=False)
    def users_function(x: Any, y: Any) -> Any:
        return tf.matmul(tf.nn.relu(tf.matmul(x, x)), y, name="culprit")

    return users_function(product, wrong)


def in_a_loop(product: Any, wrong: Any) -> Any:
    def body(i: Any, x: Any) -> Any:
        return i + 1, tf.reshape(tf.matmul(x, wrong, name="culprit"), [1, 1])

    return tf.while_loop(lambda i, _: i < 2, body, (0, product))[1]


@pytest.mark.parametrize("where", [directly, in_a_function, in_a_loop])
@pytest.mark.parametrize("way", [by_run, by_partial_run, by_description])
def test_errors_name_what_the_user_named(way: Callable[..., None], where: Callable[..., Any]) -> None:
    with tf.Graph().as_default(), enabled(), v1.Session(config=plainly()) as session:
        wrong = v1.placeholder(tf.float32, [None, None], name="wrong")
        fetch = where(square("product", 2.0), wrong)
        with pytest.raises(tf.errors.InvalidArgumentError) as raised:
            way(session, fetch, wrong)
        text = str(raised.value)
        assert "culprit" in text
        assert "mixdown" not in text.replace(str(Path(__file__).parents[3]), "")
        assert "cast_" not in text


def test_errors_carry_the_users_op_and_source_lines() -> None:
    with tf.Graph().as_default(), enabled(), v1.Session(config=plainly()) as session:
        wrong = v1.placeholder(tf.float32, [None, None], name="wrong")
        fetch = directly(square("product", 2.0), wrong)
        with pytest.raises(tf.errors.InvalidArgumentError) as raised:
            session.run(fetch, {wrong: WRONG})
        assert raised.value.op is fetch.op
        assert raised.value.node_def == fetch.op.node_def
        assert f'{Path(__file__).name}", line' in str(raised.value)
        assert "in directly" in str(raised.value)


def test_outputs_that_come_too_late_are_refused_as_ever() -> None:
    with tf.Graph().as_default(), enabled(), v1.Session(config=plainly()) as session:
        product = square("product", 0.5)
        _, looped = tf.while_loop(lambda i, _: i < 2, lambda i, x: (i + 1, tf.matmul(x, x)), (0, product))
        session.run(looped)
        slope = tf.gradients(looped, product)  # adds outputs to the loop, which is imported
        with pytest.raises(tf.errors.InvalidArgumentError, match="Connecting to invalid output"):
            session.run(slope)
    with tf.Graph().as_default(), v1.Session(config=plainly()) as plain:
        product = square("product", 0.5)
        _, looped = tf.while_loop(lambda i, _: i < 2, lambda i, x: (i + 1, tf.matmul(x, x)), (0, product))
        plain.run(looped)
        slope = tf.gradients(looped, product)
        with pytest.raises(tf.errors.InvalidArgumentError, match="Connecting to invalid output"):
            plain.run(slope)


ADDED_NAMES = {
    "{{node net/product__mixdown}}": "{{node net/product}}",
    "[[net/normal__mixdown_full_0/_12]]": "[[net/normal/_12]]",
    "rows__mixdown_low_0_1": "rows",
    "{{function_node __inference_step_12__mixdown_3}}": "{{function_node __inference_step_12}}",
    "x/cast_0_to_float16 x/cast_1_to_bfloat16_2 x/cast_0_to_float32": "x x x",
    "Matrix size-incompatible: In[0]: [1,1], In[1]: [2,2]": "Matrix size-incompatible: In[0]: [1,1], In[1]: [2,2]",
}


@pytest.mark.parametrize("text", ADDED_NAMES)
def test_names_that_were_added_become_the_users(text: str) -> None:
    error = tf.errors.UnknownError(None, None, text)
    with pytest.raises(tf.errors.UnknownError) as raised, SessionTwin(POLICY).with_users_names():
        raise error
    assert raised.value.message == ADDED_NAMES[text]
