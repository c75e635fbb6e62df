"""Ctrl-C at any moment of planning, rewriting and registering leaves nothing half done: the next call is right."""

import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

# Private: the call boundary. Checked on TensorFlow 2.16 to 2.21.
from tensorflow.python.eager.context import Context
from tests.reliability.conftest import Tally
from tests.reliability.fault_interrupts import count_moments, in_another_thread, interrupted, registered
from tests.reliability.fault_processes import answer, started
from tests.tensorflow.calls.twins_probe import ON_CPU
from tests.tensorflow.sessions.session_lab import Trace, plainly, square

import mixdown
from mixdown.tensorflow.calls import active_policy, call_hook
from mixdown.tensorflow.sessions import hook

LARGE = tf.constant([[300.0]])
v1 = tf.compat.v1


def product() -> Any:
    """A function of two, so that two twins are registered."""
    inner = tf.function(lambda x: tf.matmul(x, x))
    function = tf.function(lambda x: tf.identity(inner(x)))
    assert function(LARGE).numpy().item() == 90_000.0
    return function


def mixed(function: Any) -> float:
    with mixdown.rewriting(ON_CPU):
        return float(function(LARGE).numpy().item())


def spread(count: int, most: int) -> range:
    """So many moments at most, evenly spread."""
    return range(0, count, max(1, count // most))


TWINS = ("call_function", "call_twin", "current", "of", "_make", "_rewrite", "_admit", "collector_paused")
SESSIONS = (
    "_extend_graph",
    "_sync",
    "_choose_device",
    "sync",
    "_add_rewritten",
    "_add",
    "_note_import",
    "add",
    "_import",
    "holds",
    "_note_operations",
    "collector_paused",
)
ENABLING = (
    "enable_mixed_precision_graph_rewrite",
    "install",
    "_put_in",
    "_patch",
    "works",
    "set",
    "set_process_policy",
    "scope",
)
ANYWHERE = ()  # at calls of any function


@pytest.mark.parametrize(("places", "most"), [(TWINS, 1000), (ANYWHERE, 60)])
def test_an_interrupted_first_call_leaves_no_half_registered_twin(
    places: tuple[str, ...], most: int, tally: Tally
) -> None:
    mixed(product())  # makes what is made once
    call = partial(product(), LARGE)
    with mixdown.rewriting(ON_CPU):
        moments = spread(count_moments(call, places), most)
    del call
    before = registered()
    functions = [survivor(moment, places) for moment in moments]
    tally("faults injected", len(functions))
    del functions
    assert registered() == before


def survivor(moment: int, places: tuple[str, ...]) -> Any:
    """A function whose first mixed call was interrupted at that moment, and which is as good as new."""
    function = product()
    before = registered(after_collecting=False)
    with mixdown.rewriting(ON_CPU):
        assert interrupted(partial(function, LARGE), moment, places)
    assert gc.isenabled()
    assert len(registered(after_collecting=False) - before) in (0, 2), moment
    assert function(LARGE).numpy().item() == 90_000.0
    assert np.isinf(in_another_thread(partial(mixed, function)))
    assert len(registered(after_collecting=False) - before) == 2, moment
    return function


@pytest.mark.parametrize(("places", "most"), [(SESSIONS, 1000), (ANYWHERE, 30)])
@pytest.mark.parametrize("has_run", [False, True])
def test_an_interrupted_run_leaves_a_session_that_runs_low(
    places: tuple[str, ...], most: int, tally: Tally, *, has_run: bool
) -> None:
    with session_with_product(has_run=has_run) as (running, fetched):
        moments = spread(count_moments(partial(running.run, fetched), places), most)
    for moment in moments:
        with session_with_product(has_run=has_run) as (running, fetched):
            assert interrupted(partial(running.run, fetched), moment, places)
            assert gc.isenabled()
            again_it_runs(running, fetched, has_run=has_run)
    tally("faults injected", len(moments))


@contextmanager
def session_with_product(*, has_run: bool) -> Iterator[tuple[Any, Any]]:
    """A session and something new to fetch; one that has run before holds a variable."""
    with tf.Graph().as_default(), mixdown.rewriting(ON_CPU), v1.Session(config=plainly()) as running:
        if has_run:
            running.run(v1.get_variable("kept", initializer=5.0, use_resource=True).initializer)
            assert running.run(square("earlier")) == [[np.inf]]
        yield running, square("product")


def again_it_runs(running: Any, fetched: Any, *, has_run: bool) -> None:
    """Right, low and silently: warnings are errors here."""
    trace = Trace(running, fetched)
    trace.low("MatMul")
    assert trace.values == [[np.inf]]
    assert not has_run or running.run("kept/Read/ReadVariableOp:0") == 5.0
    assert running.run(square("later")) == [[np.inf]]  # the graph goes on to grow


@pytest.mark.filterwarnings("ignore:Mixed precision is on, but the optimizer")  # an interrupted call throws it away
@pytest.mark.parametrize(("places", "most"), [(ENABLING, 30), (ANYWHERE, 10)])
def test_an_interrupted_enable_can_be_repeated(places: tuple[str, ...], most: int, tally: Tally) -> None:
    function = product()
    unhook()
    moments = spread(count_moments(enable, places), most)
    for moment in moments:
        unhook()
        interrupted(enable, moment, places)
        enable()
        assert np.isinf(function(LARGE).numpy().item()), moment
        mixdown.disable_mixed_precision_graph_rewrite()
        assert function(LARGE).numpy().item() == 90_000.0
    gc.collect()
    tally("faults injected", len(moments))


kept: list[Any] = []


def enable() -> None:
    wrapped = mixdown.enable_mixed_precision_graph_rewrite(v1.train.GradientDescentOptimizer(0.5), policy=ON_CPU)
    wrapped.usage.note_scaled()  # it trains nothing here, on purpose
    kept[:] = [wrapped]


def unhook() -> None:
    """TensorFlow as it is before the first call, and nothing in it that an interrupt left there."""
    active_policy.set_process_policy(None)
    call_hook.uninstall()
    hook.uninstall()
    for method in (Context.call_function, Context.remove_function):
        assert not hasattr(method, "_mixdown_original")


def test_no_interrupt_is_planted_where_python_would_swallow_it() -> None:
    things = [{1}]
    weakref.finalize(things[0], active_policy.set_process_policy, None)
    assert count_moments(things.clear) == 0
    assert count_moments(lambda: active_policy.set_process_policy(None)) > 0


def test_an_interrupted_block_leaves_no_policy_behind(tally: Tally) -> None:
    places = ("scope", "rewriting", "twins_for")
    enter_and_leave()  # the first time takes more steps
    moments = range(count_moments(enter_and_leave, places))
    for moment in moments:
        assert interrupted(enter_and_leave, moment, places)
        assert active_policy.current() is None, moment
    tally("faults injected", len(moments))


def enter_and_leave() -> None:
    with mixdown.rewriting(ON_CPU):
        pass


@pytest.mark.parametrize(("signals", "least"), [(12, 3), pytest.param(40, 10, marks=pytest.mark.slow)])
def test_real_signals_leave_every_function_usable(signals: int, least: int, tally: Tally) -> None:
    """SIGINT, sent by the operating system to a process that does nothing but plan: see fault_signals.py."""
    told = answer(started("fault_signals", str(signals)))
    assert told == {"interrupted": told["interrupted"], "wrong": [], "left over": []}
    assert told["interrupted"] >= least, "too few signals came while mixdown was at work"
    tally("faults injected", told["interrupted"])
