"""Policies that change while many threads call: every result is right for its function and for a policy in force."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import patch

import pytest

# Private: the call boundary. Checked on TensorFlow 2.16 to 2.21.
from tensorflow.python.eager.context import Context
from tests.reliability.conftest import Tally
from tests.reliability.fault_processes import answer, started

import mixdown
from mixdown.tensorflow import install
from mixdown.tensorflow.calls import call_hook

MARK = "_mixdown_original"


def test_sixteen_threads_never_get_a_wrong_twin_while_the_policy_changes(tally: Tally) -> None:
    check(answer(started("fault_threads", "60", "16")), tally)


@pytest.mark.slow
def test_sixteen_threads_never_get_a_wrong_twin_in_a_thousand_changes(tally: Tally) -> None:
    check(answer(started("fault_threads", "1000", "16")), tally)


def check(ran: Any, tally: Tally) -> None:
    assert ran["wrong"] == []
    assert sum(ran["seen"]) == ran["calls"] >= 16 * 50
    assert all(ran["seen"][:3]), "every precision was met"
    assert ran["alive"] == 1
    tally("calls under changing policies", ran["calls"])


def test_hooks_that_fail_in_one_thread_are_not_taken_from_another() -> None:
    """A thread that relies on hooks before they are proved would run float32 and never know."""
    install.install()
    call_hook.uninstall()
    proving = threading.Event()

    def proof(outcomes: Iterator[bool] = iter((False, True))) -> bool:  # noqa: B008 - one for both threads
        proving.set()
        time.sleep(0.3)  # the other thread is on its way
        return next(outcomes)

    with patch.object(call_hook, "works", proof), ThreadPoolExecutor(2) as pool:
        first = pool.submit(install.install)
        proving.wait()
        second = pool.submit(install.install)
        assert isinstance(first.exception(), mixdown.MixdownError)
        assert second.exception() is None
    assert call_hook.installed()
    assert not hasattr(getattr(Context.call_function, MARK), MARK), "wrapped twice"
