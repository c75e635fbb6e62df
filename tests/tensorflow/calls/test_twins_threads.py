"""Many threads at once: each has the policy of its own block, and all share one twin a function and policy."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import tensorflow as tf

# Private: the functions that TensorFlow has registered. Checked on TensorFlow 2.16 to 2.21.
from tensorflow.python.eager import context as eager_context
from tests.tensorflow.calls.twins_probe import BFLOAT16, ON_CPU

import mixdown

THREADS, CALLS = 16, 50
LARGE = tf.constant([[300.0]])


def together(work: Callable[[int], Any]) -> list[Any]:
    """The results of threads that all start at the same moment."""
    barrier = threading.Barrier(THREADS)

    def run(index: int) -> Any:
        barrier.wait()
        return work(index)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(run, range(THREADS)))


def test_a_first_call_from_all_threads_makes_one_twin() -> None:
    function = tf.function(lambda x: tf.matmul(x, x))
    function(LARGE)
    before = set(eager_context.context().list_function_names())

    def work(_: int) -> Any:
        with mixdown.rewriting(ON_CPU):
            return [function(LARGE).numpy().item() for _ in range(CALLS)]

    assert np.isinf(together(work)).all()
    made = eager_context.context().list_function_names() - before
    assert len([name for name in made if not name.startswith("__wrapped__")]) == 1


def test_each_thread_has_its_own_policy() -> None:
    """Thread by thread float32, float16 and bfloat16 in turn: 300 * 300 tells them apart."""
    function = tf.function(lambda x: tf.matmul(x, x))
    rounded = tf.cast(LARGE, "bfloat16")
    expected = (90_000.0, np.inf, float(tf.matmul(rounded, rounded)[0, 0]))

    def work(index: int) -> Any:
        policy = (None, ON_CPU, BFLOAT16)[index % 3]
        if policy is None:
            return [function(LARGE).numpy().item() for _ in range(CALLS)]
        with mixdown.rewriting(policy):
            return [function(LARGE).numpy().item() for _ in range(CALLS)]

    for index, values in enumerate(together(work)):
        assert set(values) == {expected[index % 3]}


def test_threads_that_trace_call_and_drop_functions_do_not_disturb_each_other() -> None:
    def work(index: int) -> Any:
        out = []
        for _ in range(4):
            function = tf.function(lambda x: tf.matmul(x, x) * float(index))
            with mixdown.rewriting(ON_CPU):
                out.append(function(tf.constant([[2.0]])).numpy().item())
            out.append(function(tf.constant([[2.0]])).numpy().item())
        return out

    for index, values in enumerate(together(work)):
        assert set(values) == {4.0 * index}


def test_a_block_in_one_thread_leaves_the_others_alone() -> None:
    function, seen = tf.function(lambda x: tf.matmul(x, x)), []
    with mixdown.rewriting(ON_CPU):
        thread = threading.Thread(target=lambda: seen.append(function(LARGE).numpy().item()))
        thread.start()
        thread.join()
        assert np.isinf(function(LARGE)).all()
    assert seen == [90_000.0]
