"""Observers of calls: each sees the calls of its own thread and block, and none of them outlives the hook."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

# Private: the call boundary. Checked on TensorFlow 2.16 to 2.21.
from tensorflow.python.eager.context import Context
from tests.reliability.fault_interrupts import in_another_thread
from tests.tensorflow.calls.twins_probe import ON_CPU

import mixdown
from mixdown.tensorflow import install
from mixdown.tensorflow.calls import call_hook

LARGE = tf.constant([[300.0]])
square = tf.function(lambda x: tf.matmul(x, x))


@pytest.fixture(autouse=True)
def _installed() -> Iterator[None]:
    install.install()
    square(LARGE)
    yield
    install.install()


class Watcher:
    """Notes calls, and makes them in one of the two ways."""

    def __init__(self, way: str) -> None:
        self.way, self.seen = way, 0

    def __call__(self, call: call_hook.ObservedCall) -> Any:
        self.seen += 1
        return call.as_is(call.name) if self.way == "as is" else call.unobserved()


@pytest.mark.parametrize(("way", "is_low"), [("as is", False), ("unobserved", True)])
def test_an_observer_chooses_whether_the_twin_runs(way: str, *, is_low: bool) -> None:
    watcher = Watcher(way)
    with mixdown.rewriting(ON_CPU), call_hook.observed(watcher):
        assert np.isinf(square(LARGE).numpy().item()) == is_low
    square(LARGE)
    assert watcher.seen == 1


def test_the_calls_of_an_inner_observer_go_to_the_outer_one() -> None:
    outer, inner = Watcher("unobserved"), Watcher("unobserved")
    with call_hook.observed(outer):
        with call_hook.observed(inner):
            square(LARGE)
        square(LARGE)
    assert (outer.seen, inner.seen) == (2, 1)


def test_another_thread_is_not_observed() -> None:
    watcher = Watcher("unobserved")
    with call_hook.observed(watcher):
        in_another_thread(lambda: square(LARGE))
    assert watcher.seen == 0


def test_a_hook_that_is_taken_out_while_calls_are_observed_stays_out() -> None:
    watcher = Watcher("unobserved")
    with call_hook.observed(watcher):
        call_hook.uninstall()
        square(LARGE)
        assert watcher.seen == 0
        call_hook.install()
        square(LARGE)
        assert watcher.seen == 1
        call_hook.uninstall()
    assert not hasattr(Context.call_function, "_mixdown_original")


def test_a_step_can_be_located_while_the_program_is_watched() -> None:
    with mixdown.rewriting(ON_CPU), mixdown.numerics.locating() as found:
        location = mixdown.numerics.locate(square, LARGE)
        assert location is not None
        assert found == []
        square(LARGE)
    assert [each.kind for each in found] == ["MatMul"]
