"""Planning takes no more time than it must: once for one content, and not at all where nothing can change."""

import gc
import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

# Private: the functions that TensorFlow has registered. Checked on TensorFlow 2.16 to 2.21.
from tensorflow.python.eager import context as eager_context
from tests.tensorflow.calls.twins_probe import ON_CPU

import mixdown
from mixdown.core import make_plan
from mixdown.messages import logger
from mixdown.tensorflow.calls import active_policy, tracing_time
from mixdown.tensorflow.calls.twins import SELF_TEST, Twin, Twins
from mixdown.tensorflow.writing import planning

X = tf.constant([[1.0, 2.0], [3.0, 4.0]])


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every graph that is planned while no policy has plans from before."""
    graphs: list[Any] = []

    def counted(graph: Any, policy: Any) -> Any:
        if not any(SELF_TEST in op.function for op in graph.ops):
            graphs.append(graph)
        return planned(graph, policy)

    planned = make_plan
    monkeypatch.setattr(planning, "make_plan", counted)
    monkeypatch.setattr(active_policy, "_made", {})
    return graphs


def make_step(*, factor: float = 1.0, rows: int = 2, width: int = 2) -> Callable[[], Any]:
    """A step with variables, a function that it calls and a loop, as if the program had just made its model."""
    down, up = tf.Variable(tf.ones((2, width))), tf.Variable(tf.ones((width, 2)))
    inner = tf.function(lambda x: tf.nn.relu(tf.matmul(tf.matmul(x, down), up)) * factor)
    large = tf.zeros((200,))  # is passed into the loop under a name with a number

    @tf.function(input_signature=[tf.TensorSpec((rows, 2))])
    def step(x: Any) -> Any:
        return tf.while_loop(lambda i, _: i < 2, lambda i, a: (i + 1, inner(a) + tf.reduce_sum(large)), (0, x))[1]

    return lambda: (step, step(tf.ones((rows, 2))))


def twin_of(step: Any) -> Twin:
    twins = active_policy.twins_for(ON_CPU)
    return twins.known[step.get_concrete_function().name, eager_context.context().device_name]


def definitions(twin: Twin) -> list[bytes]:
    context = eager_context.context()
    return [context.get_function_def(name).SerializeToString(deterministic=True) for name in sorted(twin.originals)]


def test_a_step_that_is_traced_again_is_planned_once_and_gets_the_twin_of_a_first_plan(plans: list[Any]) -> None:
    with mixdown.rewriting(ON_CPU):
        first, result = make_step()()
        second, again = make_step()()
    assert len(plans) == 1
    np.testing.assert_array_equal(result, again)
    taken_over = twin_of(second)
    assert taken_over.name != twin_of(first).name

    fresh = Twins(ON_CPU)
    inputs = [X, *second.get_concrete_function().captured_inputs]
    made, functions = fresh._rewrite(eager_context.context(), second.get_concrete_function().name, "CPU", inputs)
    assert len(plans) == 2
    by_name = sorted(functions, key=lambda function: function.signature.name)
    assert definitions(taken_over) == [function.SerializeToString(deterministic=True) for function in by_name]
    assert len(by_name) > 1
    assert made.plan == taken_over.plan
    assert made.plan is not None
    assert taken_over.plan is not None
    assert made.plan.why("MatMul") == taken_over.plan.why("MatMul")


@pytest.mark.parametrize("other", [{"factor": 2.0}, {"rows": 3}, {"width": 3}])
def test_a_step_with_another_constant_or_shape_is_planned_anew(plans: list[Any], other: dict[str, Any]) -> None:
    with mixdown.rewriting(ON_CPU):
        make_step()()
        _, result = make_step(**other)()
    assert len(plans) == 2
    once = 2.0 * other.get("width", 2) * other.get("factor", 1.0)
    np.testing.assert_array_equal(result, np.full((other.get("rows", 2), 2), once**2))


def test_a_plan_that_was_taken_over_outlives_the_step_it_was_made_for(plans: list[Any]) -> None:
    with mixdown.rewriting(ON_CPU):
        make_step()()  # deleted at once, with its twin
        step, result = make_step()()
        gc.collect()
        np.testing.assert_array_equal(step(X), [[24.0, 24.0], [56.0, 56.0]])
    assert len(plans) == 1
    assert "MatMul" in str(mixdown.report().why("MatMul"))
    np.testing.assert_array_equal(result, np.full((2, 2), 16.0))


def test_a_function_without_an_allowed_op_is_not_planned_before_somebody_asks(plans: list[Any]) -> None:
    inner = tf.function(lambda x: tf.exp(x) + 1.0)

    @tf.function
    def steep(x: Any) -> Any:
        return inner(x) * 2.0

    with mixdown.rewriting(ON_CPU):
        np.testing.assert_allclose(steep(X), (np.exp(X) + 1) * 2, rtol=1e-6)
    assert not plans
    (listed,) = [graph for graph in mixdown.report().graphs if graph.name.startswith("steep")]
    assert (listed.rewritten, listed.reason) == (False, "no op in it can run in float16")
    assert "Exp" in {op.kind for op in listed.ops}
    assert len(plans) == 1


def test_a_function_that_was_never_planned_may_be_gone_when_somebody_asks() -> None:
    @tf.function
    def fleeting(x: Any) -> Any:
        return tf.exp(x)

    policy = ON_CPU.with_keep("Lgamma")  # twins of its own
    with mixdown.rewriting(policy):
        fleeting(X)
        twins = active_policy.current()
    assert twins is not None
    name = fleeting.get_concrete_function(X).name
    twins._made[b"gone", "CPU"] = twins._made[name, "CPU"]
    assert {name: twin.plan is None for name, _, twin in twins.made()} == {name.decode(): False, "gone": True}


def test_an_op_that_a_rule_allows_by_its_scope_is_found(plans: list[Any]) -> None:
    with mixdown.rewriting(ON_CPU.with_allow(scope="rounded")):

        @tf.function
        def named(x: Any) -> Any:
            with tf.name_scope("rounded"):
                return tf.exp(x)

        assert named(tf.constant(0.1)) == np.float32(np.exp(np.float16(0.1)))
    assert len(plans) == 1


@pytest.mark.parametrize(("traced", "said"), [(1e-9, True), (1e9, False), (0.0, False)])
def test_the_log_says_when_planning_took_longer_than_tracing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, traced: float, *, said: bool
) -> None:
    monkeypatch.setattr(tracing_time, "SHORT", 0.0)
    monkeypatch.setattr(tracing_time, "traced", lambda: traced)
    monkeypatch.setattr(tracing_time, "_counted", [0.0])
    with caplog.at_level(logging.INFO, logger().name), mixdown.rewriting(ON_CPU):
        make_step()()
    assert ("longer than tracing (0.0 s)" in caplog.text) is said


def test_tensorflow_counts_the_time_of_tracing() -> None:
    before = tracing_time.traced()
    tf.function(lambda x: x + 1).get_concrete_function(X)
    assert tracing_time.traced() > before
