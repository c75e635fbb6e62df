"""What goes wrong in the user's code inside a twin is the user's error, unchanged; nothing else has happened."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from tests.reliability.conftest import Tally
from tests.reliability.fault_training import HOSTS, HUGE, Job, precision, trained

LIMIT = HUGE / 2
WORDS = "these targets are huge"


class Guard(NamedTuple):
    """Code that refuses huge targets, and the error by which it does."""

    code: Callable[[Any], Any]
    error: type[Exception]
    text: str


def look(y: Any) -> Any:
    if np.max(y) > LIMIT:
        raise ValueError(WORDS)
    return y


def by_assertion(y: Any) -> Any:
    with tf.control_dependencies([tf.debugging.assert_less(y, LIMIT, message=WORDS)]):
        return tf.identity(y)


def by_allocation(y: Any) -> Any:
    """Asks for 64 TiB, but only if the targets are huge."""
    size = tf.where(tf.reduce_max(y) > LIMIT, tf.constant(2**44, tf.int64), 1)
    return y + 0.0 * tf.reduce_sum(tf.random.uniform([size]))


GUARDS = {
    "py_function": Guard(
        lambda y: tf.ensure_shape(tf.py_function(look, [y], tf.float32), y.shape),
        tf.errors.InvalidArgumentError,
        f"ValueError: {WORDS}",
    ),
    "numpy_function": Guard(
        lambda y: tf.ensure_shape(tf.numpy_function(look, [y], tf.float32), y.shape),
        tf.errors.InvalidArgumentError,
        f"ValueError: {WORDS}",
    ),
    "assertion": Guard(by_assertion, tf.errors.InvalidArgumentError, WORDS),
    "check_numerics": Guard(
        lambda y: tf.debugging.check_numerics(y * 1e35, WORDS) * 1e-35, tf.errors.InvalidArgumentError, WORDS
    ),
    "memory": Guard(by_allocation, tf.errors.ResourceExhaustedError, "OOM when allocating tensor with shape[17592186"),
}


def guarded(host: str, guard: Guard, monkeypatch: pytest.MonkeyPatch) -> Job:
    monkeypatch.setattr(HOSTS[host], "guard", lambda _, y: guard.code(y))
    return trained(host, range(2), mixed=True)


QUICK = [*((host, "py_function") for host in HOSTS), *(("v1", kind) for kind in GUARDS if kind != "py_function")]
SLOW = [(host, kind) for host in HOSTS for kind in GUARDS if (host, kind) not in QUICK]


@pytest.mark.parametrize(("host", "kind"), [*QUICK, *(pytest.param(*each, marks=pytest.mark.slow) for each in SLOW)])
def test_an_error_in_user_code_changes_nothing(
    host: str, kind: str, monkeypatch: pytest.MonkeyPatch, tally: Tally
) -> None:
    guard = GUARDS[kind]
    job, calm = (guarded(host, guard, monkeypatch) for _ in range(2))
    state, account = job.state(), job.account()
    with precision(mixed=True):
        with pytest.raises(guard.error) as caught:
            job.step(2, huge=True)
        assert guard.text in str(caught.value)
        assert "float16" not in str(caught.value)
        assert (job.state(), job.account()) == (state, account)
        for one in (job, calm):
            one.step(3)
    assert (job.state(), job.account()) == (calm.state(), calm.account())
    assert job.state() != state
    tally("faults injected")


@pytest.mark.parametrize("kind", GUARDS)
def test_the_error_is_the_one_that_float32_gives(kind: str) -> None:
    function = tf.function(lambda x, y: tf.matmul(x, x) + tf.reduce_max(GUARDS[kind].code(y)), autograph=False)
    said = []
    for mixed in (False, True):
        with precision(mixed=mixed), pytest.raises(tf.errors.OpError) as caught:
            function(tf.ones([2, 2]), tf.fill([2, 1], HUGE))
        said.append((type(caught.value), untimed(str(caught.value))))
    assert said[0] == said[1]


def untimed(text: str) -> str:
    """A message without the stack of the call, which has another line for each of the two calls."""
    return text.partition("Traceback")[0]


def test_a_function_that_ran_out_of_memory_still_runs_as_its_twin() -> None:
    function = tf.function(lambda x, y: tf.matmul(x, x) + tf.reduce_max(by_allocation(y)))
    large = tf.constant([[300.0]])
    with precision(mixed=True):
        for _ in range(3):
            with pytest.raises(tf.errors.ResourceExhaustedError):
                function(large, tf.fill([2, 1], HUGE))
            assert np.isinf(function(large, tf.ones([2, 1])).numpy().item())
    assert function(large, tf.ones([2, 1])).numpy().item() == 90_001.0
