"""A process that gets SIGINT again and again while it plans; prints what became of its functions as one line of JSON.

Argument: how many functions to make. The signals come from a thread, at moments spread over the time that a plan takes.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import threading
import time
from typing import Any

import tensorflow as tf
from tests.reliability.fault_interrupts import registered

import mixdown

LARGE = tf.constant([[300.0]])
POLICY = mixdown.Policy(devices="all")


def product() -> Any:
    """A function that takes a while to plan: a chain of products, overflowing at the first."""
    inner = tf.function(lambda x: tf.matmul(x, x))

    @tf.function
    def outer(x: Any) -> Any:
        for _ in range(30):
            x = tf.nn.relu(inner(x) / 300.0)
        return x

    outer(LARGE)
    return outer


def interrupted(call: Any, delay: float) -> bool:
    """Make a call, with a SIGINT to this process after a delay; returns whether the call was interrupted."""
    sender = threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT))
    try:
        sender.start()
        call()
        sender.join()
        time.sleep(0.01)  # the signal is heard here if it came late
    except KeyboardInterrupt:
        return True
    return False


def duration(function: Any) -> float:
    start = time.perf_counter()
    with mixdown.rewriting(POLICY):
        function(LARGE)
    return time.perf_counter() - start


def main(count: int) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets what it runs in the background ignore it
    duration(product())
    usual = duration(product())
    before, hit, wrong = registered(), 0, []
    for number in range(count):
        function = product()
        gc.collect()  # else an interrupt may come in a destructor of an earlier function, and Python ignores it there
        finished: list[None] = []

        def call(function: Any = function, finished: list[None] = finished) -> None:
            function(LARGE)
            finished.append(None)

        with mixdown.rewriting(POLICY):
            heard = interrupted(call, usual * number / count)
            hit += heard and not finished
            if function(LARGE).numpy().item() != float("inf"):
                wrong.append(number)
        del function, call
    print(json.dumps({"interrupted": hit, "wrong": wrong, "left over": sorted(registered() - before)}))  # noqa: T201 - the answer


if __name__ == "__main__":
    main(int(sys.argv[1]))
