"""Errors in the user's code inside a twin, and the checks that they are the user's own and change nothing else.

As a script, with hosts as arguments: makes the checks of running out of memory, and prints JSON: name -> what went
wrong, "" if nothing did. It is to be run with TF_ENABLE_ONEDNN_OPTS=0, because the allocator that comes with oneDNN
waits ten seconds for memory before it gives up.
"""

import json
import sys
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from tests.reliability.fault_training import HOSTS, HUGE, precision, trained

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


def check_that_nothing_changes(host: str, kind: str) -> None:
    """A step that fails leaves everything as it was, and the next step is as if it had not been."""
    guard = GUARDS[kind]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HOSTS[host], "guard", lambda _, y: guard.code(y))
        job, calm = (trained(host, range(2), mixed=True) for _ in range(2))
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


def check_that_float32_gives_it_too(kind: str) -> None:
    """The error has the type and the message that it has without mixed precision."""
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


def check_that_the_twin_still_runs() -> None:
    """A function that ran out of memory runs as its twin, again and again."""
    function = tf.function(lambda x, y: tf.matmul(x, x) + tf.reduce_max(by_allocation(y)))
    large = tf.constant([[300.0]])
    with precision(mixed=True):
        for _ in range(3):
            with pytest.raises(tf.errors.ResourceExhaustedError):
                function(large, tf.fill([2, 1], HUGE))
            assert np.isinf(function(large, tf.ones([2, 1])).numpy().item())
    assert function(large, tf.ones([2, 1])).numpy().item() == 90_001.0


def outcome(check: Callable[[], None]) -> str:
    """What goes wrong in a check."""
    try:
        check()
    except BaseException:  # noqa: BLE001 - printed for the process that asked
        return traceback.format_exc()
    return ""


if __name__ == "__main__":
    checks: dict[str, Callable[[], None]] = {
        "float32": partial(check_that_float32_gives_it_too, "memory"),
        "twin": check_that_the_twin_still_runs,
        **{host: partial(check_that_nothing_changes, host, "memory") for host in sys.argv[1:]},
    }
    print(json.dumps({name: outcome(check) for name, check in checks.items()}))  # noqa: T201 - the answer
