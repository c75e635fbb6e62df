"""A fault of mixdown's own, at any stage of making a twin, costs speed and nothing else: float32 runs and says so."""

import warnings
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import tensorflow as tf

# Private: the call boundary. Checked on TensorFlow 2.16 to 2.21.
from tensorflow.python.eager.context import Context
from tests.reliability.conftest import Tally
from tests.reliability.fault_interrupts import registered
from tests.tensorflow.calls.twins_probe import ON_CPU

import mixdown
from mixdown.errors import GraphError
from mixdown.tensorflow.calls import active_policy, twins
from mixdown.tensorflow.sessions import twin
from mixdown.tensorflow.writing import function_family, known_plans, planning

LARGE = tf.constant([[300.0]])
v1 = tf.compat.v1

STAGES: dict[str, tuple[Any, str]] = {
    "looking at the arguments": (twins, "handles_of_inputs"),
    "reading": (planning, "read"),
    "planning": (planning, "make_plan"),
    "applying": (function_family, "apply"),
    "registering": (Context, "add_function_def"),
}
OUR_FAULT = "That is a fault of mixdown, not of your function: please report it."
ERRORS: dict[str, tuple[Callable[[], Exception], str]] = {
    "known": (lambda: GraphError("Node 'odd' is odd."), "runs in float32: Node 'odd' is odd."),
    "a bug": (lambda: KeyError("odd"), f"runs in float32: rewriting it failed with KeyError: 'odd'. {OUR_FAULT}"),
    "TensorFlow's": (
        lambda: tf.errors.InvalidArgumentError(None, None, "odd"),
        f"runs in float32: rewriting it failed with InvalidArgumentError: odd. {OUR_FAULT}",
    ),
}


def product() -> Any:
    """A function of two, so that two twins are registered."""
    inner = tf.function(lambda x: tf.matmul(x, x))
    return tf.function(lambda x: tf.identity(inner(x)))


def failing_at_the_second_call(original: Any, error: Callable[[], Exception]) -> Any:
    """A stage that fails when it is called again: a part of the work is done then."""
    calls: list[None] = []

    def fails(*args: Any, **kwargs: Any) -> Any:
        calls.append(None)
        if len(calls) > 1:
            raise error()
        return original(*args, **kwargs)

    return fails


def failing(error: Callable[[], Exception]) -> Any:
    def fails(*_: Any, **__: Any) -> Any:
        raise error()

    return fails


@pytest.mark.parametrize("fault", ERRORS)
@pytest.mark.parametrize("stage", STAGES)
def test_a_fault_of_ours_falls_back_to_float32_and_says_so_once(stage: str, fault: str, tally: Tally) -> None:
    functions, (error, text) = [product()], ERRORS[fault]
    before = registered()
    functions[0](LARGE)
    traced = registered()
    place, name = STAGES[stage]
    whole = failing_at_the_second_call(getattr(place, name), error) if stage == "registering" else failing(error)
    active_policy.twins_for(ON_CPU)._known_plans = known_plans.KnownPlans()  # a plan of another test would do
    with mixdown.rewriting(ON_CPU):
        with patch.object(place, name, whole), pytest.warns(mixdown.MixdownWarning) as caught:
            assert functions[0](LARGE).numpy().item() == 90_000.0
        assert registered() == traced
        assert functions[0](LARGE).numpy().item() == 90_000.0  # silently: warnings are errors here
        assert np.isinf(product()(LARGE).numpy().item())
    (warning,) = caught
    assert str(warning.message).startswith("Function __inference_")
    assert str(warning.message).endswith(text)
    functions.clear()
    assert registered() == before
    tally("faults injected")


@pytest.mark.parametrize("stage", ["read", "make_plan", "write"])
def test_a_fault_of_ours_in_a_session_falls_back_to_float32_and_says_so_once(stage: str, tally: Tally) -> None:
    with tf.Graph().as_default(), mixdown.rewriting(ON_CPU), v1.Session() as running:
        fetched = tf.matmul(LARGE.numpy(), LARGE.numpy())
        broken = patch.object(twin, stage, failing(lambda: KeyError("odd")))
        with broken, pytest.warns(mixdown.MixdownWarning) as caught:
            assert running.run(fetched) == [[90_000.0]]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert running.run(fetched) == [[90_000.0]]
    (warning,) = caught
    assert str(warning.message) == "A session runs in float32: 'odd'"
    tally("faults injected")
