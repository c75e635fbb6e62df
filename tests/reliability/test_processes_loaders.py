"""Data loaders with processes of their own: forked before or after enabling, spawned, under tf.data."""

import gc
import os
import signal
import threading
import time
from typing import Any

import pytest
import tensorflow as tf
from tests.reliability.fault_processes import answer, started
from tests.tensorflow.calls.twins_probe import ON_CPU

import mixdown
from mixdown.core.gc_pause import collector_paused
from mixdown.tensorflow.calls import active_policy

WAYS = ["forked before", "forked after", "tf.data over forked", "forked while enabled", "spawned"]


@pytest.fixture(scope="module")
def loaded() -> Any:
    return answer(started("fault_loaders"))


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_training_does_not_care_who_makes_its_batches(way: str, loaded: Any) -> None:
    weights, made_elsewhere = loaded[way]
    assert weights == loaded["from here"][0]
    assert made_elsewhere


def test_a_process_forked_while_a_thread_plans_does_not_wait_for_that_thread() -> None:
    """The forked one has nobody who would release the lock, but collects functions that take it."""
    function = tf.function(lambda x: tf.matmul(x, x))
    with mixdown.rewriting(ON_CPU):
        function(tf.ones([2, 2]))
    planning, over = threading.Event(), threading.Event()

    def plan() -> None:
        with active_policy.twins_for(ON_CPU)._lock, collector_paused():
            planning.set()
            over.wait()

    thread = threading.Thread(target=plan)
    thread.start()
    planning.wait()
    child = os.fork()
    if child == 0:
        del function
        gc.collect()
        os._exit(0 if gc.isenabled() else 3)
    over.set()
    thread.join()
    assert status_of(child) == 0


def status_of(child: int) -> int:
    """How a process ended; one that does not is killed."""
    for _ in range(600):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -signal.SIGKILL
