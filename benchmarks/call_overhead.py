"""Time that mixdown's hook adds to the call of a tiny tf.function, in microseconds. Target: at most 3 per call.

Run `python benchmarks/call_overhead.py`. The different ways to make the call are timed in turns in one process. A tiny
call takes about a hundred microseconds, and a busy machine adds as much noise, so the best round of each way is shown.
The hook ("the boundary") is also measured without a call behind it, where there is little noise.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from typing import Any, NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf
from tensorflow.python.eager import context as eager_context

import mixdown
from mixdown.tensorflow import install
from mixdown.tensorflow.calls import active_policy, call_hook
from mixdown.tuning.memory import VARIABLE

POLICY = mixdown.Policy(devices="all")
TUNED = mixdown.Policy(devices="all", strategy="tuned")
CALLS = 50  # calls in a row per way and round
LINE = "{:<46} | {:>8} | {:>8}"


class Way(NamedTuple):
    """One way to make a call."""

    name: str
    call: Callable[[], object]
    hooked: bool  # whether mixdown's hook is installed
    policy: mixdown.Policy | None = None  # in force


def pairs() -> list[list[Way]]:
    """Ways to make a call, in groups that do the same work; the first of each group has no hook."""
    x = tf.constant([[300.0]])
    square = tf.function(lambda x: tf.matmul(x, x), autograph=False)
    double = tf.function(lambda x: x + x, autograph=False)
    with mixdown.rewriting(POLICY):
        assert bool(tf.math.is_inf(square(x))[0, 0]), "the twin does not run"
    context, name = eager_context.context(), square.get_concrete_function(x).function_def.signature.name.encode()
    twin = active_policy.twins_for(POLICY).known[name, context.device_name].name
    tune(square, x)
    boundary = call_hook._wrap_call(_nothing)
    return [
        [
            Way("nothing", lambda: _nothing(context, name, [x], 1), hooked=False),
            Way("the boundary alone, no policy in force", lambda: boundary(context, name, [x], 1), hooked=True),
            Way(
                "the boundary alone, policy in force",
                lambda: boundary(context, name, [x], 1),
                hooked=True,
                policy=POLICY,
            ),
            Way(
                "the boundary alone, after tuning",
                lambda: boundary(context, name, [x], 1),
                hooked=True,
                policy=TUNED,
            ),
        ],
        [
            Way("the twin of a matmul, called by its name", lambda: context.call_function(twin, [x], 1), hooked=False),
            Way(
                "the twin, through the boundary",
                lambda: context.call_function(name, [x], 1),
                hooked=True,
                policy=POLICY,
            ),
        ],
        [
            Way("x + x as a tf.function, without mixdown", lambda: double(x), hooked=False),
            Way("x + x, no policy in force", lambda: double(x), hooked=True),
            Way("x + x, policy in force (its twin is itself)", lambda: double(x), hooked=True, policy=POLICY),
        ],
        [
            Way("matmul as a tf.function, without mixdown", lambda: square(x), hooked=False),
            Way("matmul, policy in force (its twin has casts)", lambda: square(x), hooked=True, policy=POLICY),
            Way("matmul, after tuning", lambda: square(x), hooked=True, policy=TUNED),
        ],
    ]


def tune(function: Any, x: Any) -> None:
    """Call a function until it is tuned."""
    with tempfile.TemporaryDirectory() as folder, mixdown.rewriting(TUNED):
        os.environ[VARIABLE] = folder
        while not mixdown.tuned_policy().choices:
            function(x)


def _nothing(_context: Any, _name: bytes, _inputs: Any, _outputs: int) -> None:
    """A runtime that does nothing."""


def microseconds(way: Way) -> float:
    """The time of one call: the mean of CALLS calls in a row."""
    (call_hook.install if way.hooked else call_hook.uninstall)()
    with active_policy.scope(way.policy):
        way.call()
        start = time.perf_counter()
        for _ in range(CALLS):
            way.call()
        return 1e6 * (time.perf_counter() - start) / CALLS


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=300)
    count = parser.parse_args().rounds
    install.install()
    groups = pairs()
    best = {way.name: float("inf") for group in groups for way in group}
    for _ in range(count):
        for way in (way for group in groups for way in group):
            best[way.name] = min(best[way.name], microseconds(way))
    print(LINE.format("call", "us", "added"))
    for first, *others in groups:
        print(LINE.format(first.name, f"{best[first.name]:.2f}", ""))
        for way in others:
            print(LINE.format(way.name, f"{best[way.name]:.2f}", f"{best[way.name] - best[first.name]:+.2f}"))


if __name__ == "__main__":
    main()
