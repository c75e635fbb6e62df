"""Twins live as long as their originals: nothing is left over, however many functions come and go."""

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

# Private: the functions that TensorFlow has registered. Checked on TensorFlow 2.16 to 2.21.
from tensorflow.python.eager import context as eager_context
from tests.tensorflow.calls.twins_probe import BFLOAT16, ON_CPU, executed

import mixdown
from mixdown.tensorflow.calls import active_policy

X = tf.constant([[1.0, 2.0], [3.0, 4.0]])


def registered() -> set[str]:
    """The names of all functions TensorFlow holds, without its own wrappers of single eager ops."""
    gc.collect()
    names = eager_context.context().list_function_names()
    return {name for name in names if not name.startswith("__wrapped__")}


def remembered() -> int:
    """How many entries mixdown holds in all its tables."""
    tables = [table for twins in active_policy.all_twins() for table in vars(twins).values() if isinstance(table, dict)]
    return sum(map(len, tables))


def create_call_delete() -> None:
    weight = tf.Variable(X)
    inner = tf.function(lambda x: tf.nn.relu(tf.matmul(x, weight)))

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.while_loop(lambda i, _: i < 2, lambda i, a: (i + 1, inner(a)), (0, x))[1])
        return tape.gradient(loss, weight)

    step(X)


def grown(cycles: int) -> tuple[set[str], int]:
    """What so many cycles leave behind."""
    with mixdown.rewriting(ON_CPU):
        create_call_delete()
        functions, entries = registered(), remembered()
        for _ in range(cycles):
            create_call_delete()
        return registered() - functions, remembered() - entries


def test_functions_that_are_gone_leave_no_twin_behind() -> None:
    assert grown(10) == (set(), 0)


@pytest.mark.slow
def test_a_thousand_functions_leave_nothing_behind() -> None:
    assert grown(1000) == (set(), 0)


@pytest.mark.slow
def test_a_thousand_functions_leave_no_memory_behind() -> None:
    """TensorFlow itself keeps a little of every function; twins must not keep more than that again."""

    def resident() -> int:
        pages = Path("/proc/self/statm").read_text().split()[1]
        return int(pages) * 4096

    def kept(cycles: int) -> int:
        gc.collect()
        before = resident()
        for _ in range(cycles):
            create_call_delete()
        gc.collect()
        return resident() - before

    for _ in range(50):  # allocators settle
        create_call_delete()
    plain = kept(500)
    with mixdown.rewriting(ON_CPU):
        create_call_delete()
        mixed = kept(500)
    assert mixed < 2.5 * plain + 20_000_000


def test_the_same_function_under_two_policies_has_two_twins_and_leaves_neither_behind() -> None:
    before, entries = registered(), remembered()
    functions = [tf.function(lambda x: tf.matmul(x, x))]
    for policy in (ON_CPU, BFLOAT16):
        with mixdown.rewriting(policy):
            assert executed(lambda: functions[0](X)).all_low("MatMul", low=policy.low)
    assert len(registered() - before) == 3
    functions.clear()
    assert registered() - before == set()
    assert remembered() == entries


def test_a_function_deleted_outside_the_block_takes_its_twin_along() -> None:
    before = registered()
    function = tf.function(lambda x: tf.matmul(x, x))
    with mixdown.rewriting(ON_CPU):
        function(X)
    del function
    assert registered() - before == set()


def test_functions_that_tensorflow_chooses_among_leave_nothing_behind() -> None:
    """RNN layers of tf_keras register such groups; mixdown looks through all functions to find their members."""

    def cycle() -> None:
        attributes = {"api_implements": "pair", "api_preferred_device": "CPU"}
        function = tf.function(lambda x: tf.matmul(x, x), experimental_attributes=attributes)
        outer = tf.function(lambda x: tf.identity(function(x)))
        outer(X)

    with mixdown.rewriting(ON_CPU):
        cycle()
        functions, entries = registered(), remembered()
        for _ in range(5):
            cycle()
        assert registered() - functions == set()
        assert remembered() == entries


def test_a_twin_is_made_once_for_all_devices_of_one_type() -> None:
    before = registered()
    function = tf.function(lambda x: tf.matmul(x, x))
    with mixdown.rewriting(ON_CPU):
        function(X)
        with tf.device("/CPU:0"):
            function(X)
        with tf.device("/job:localhost/replica:0/task:0/device:CPU:0"):
            function(X)
    assert len(registered() - before) == 2


def test_calling_again_makes_nothing_new() -> None:
    function = tf.function(lambda x: tf.matmul(x, x))
    with mixdown.rewriting(ON_CPU):
        first = function(X)
        functions, entries = registered(), remembered()
        for _ in range(3):
            np.testing.assert_array_equal(function(X), first)
    assert (registered(), remembered()) == (functions, entries)
