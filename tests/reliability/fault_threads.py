"""Many threads that call many functions while another changes the policy; prints what they got as one line of JSON.

Arguments: how often the policy changes, and how many threads call. Run as a script: the policy is the whole process's,
and threads that wait for each other for ever must not take the tests along.
"""

from __future__ import annotations

import faulthandler
import itertools
import json
import random
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import tensorflow as tf

import mixdown

FUNCTIONS, CALLS_A_ROUND = 50, 40
FLOAT16, BFLOAT16 = mixdown.Policy(devices="all"), mixdown.Policy(low="bfloat16", devices="all")
KEPT = FLOAT16.with_keep("MatMul")  # a policy under which all is as in float32
POLICIES = (None, FLOAT16, BFLOAT16, KEPT)
X = tf.constant([[1.2345678]])


def function_of(factor: Any) -> Any:
    """A function that no other has the results of, in whatever precision."""
    inner = tf.function(lambda x: tf.matmul(x, factor))
    return tf.function(lambda x: tf.identity(inner(x)))


def by_hand(factor: Any, policy: mixdown.Policy | None) -> float:
    """What a function must return under a policy, by explicit casts and no function at all."""
    low = tf.float32 if policy in (None, KEPT) else tf.dtypes.as_dtype(policy.low)
    return float(tf.cast(tf.matmul(tf.cast(X, low), tf.cast(factor, low)), tf.float32)[0, 0])


def telling_factors() -> list[Any]:
    """Factors whose results tell function and precision: no two are equal."""
    seen: set[float] = set()
    out: list[Any] = []
    for number in itertools.count():
        factor = tf.constant([[1.0 + number * 0.37654321]])
        results = {by_hand(factor, policy) for policy in (None, FLOAT16, BFLOAT16)}
        if len(results) == 3 and not results & seen:
            seen |= results
            out.append(factor)
        if len(out) == FUNCTIONS:
            break
    return out


class Switch:
    """Changes the policy of the process. `history[settled:]` holds every policy that may be in force."""

    def __init__(self) -> None:
        self.history: list[mixdown.Policy | None] = [None]
        self.settled = 0
        self.wrapped: list[Any] = []

    def turn(self, policy: mixdown.Policy | None) -> None:
        before, self.history = self.history[-1], [*self.history, policy]
        if policy is not None:
            bare = tf.compat.v1.train.GradientDescentOptimizer(0.5)
            self.wrapped = [mixdown.enable_mixed_precision_graph_rewrite(bare, policy=policy)]
            self.wrapped[0].usage.note_scaled()  # it trains nothing here, on purpose
        elif before is not None:
            mixdown.disable_mixed_precision_graph_rewrite()
        self.settled = len(self.history) - 1


class Callers:
    """What the calling threads share."""

    def __init__(self, switch: Switch) -> None:
        self.switch, self.over = switch, False
        factors = telling_factors()
        self.functions = [function_of(factor) for factor in factors]
        self.right = [[by_hand(factor, policy) for policy in POLICIES] for factor in factors]
        self.seen: Counter[int] = Counter()
        self.wrong: list[tuple[int, float]] = []
        self.lock = threading.Lock()

    def call(self, seed: int) -> int:
        """Call functions in random order until it is over; returns how many calls that were."""
        order = random.Random(seed)  # noqa: S311 - no secret
        for count in itertools.count():
            if self.over and count >= FUNCTIONS:
                return count
            self.check(order.randrange(FUNCTIONS) if count >= FUNCTIONS else (count + seed) % FUNCTIONS)
        raise AssertionError

    def check(self, number: int) -> None:
        first = self.switch.settled
        got = self.functions[number](X).numpy().item()
        possible = {POLICIES.index(policy) for policy in self.switch.history[first:]}
        match = next((index for index in possible if self.right[number][index] == got), None)
        with self.lock:
            if match is None:
                self.wrong.append((number, got))
            else:
                self.seen[match] += 1


def main(rounds: int, threads: int) -> None:
    faulthandler.dump_traceback_later(240, exit=True)
    switch = Switch()
    callers = Callers(switch)
    with ThreadPoolExecutor(threads) as pool:
        calls = [pool.submit(callers.call, seed) for seed in range(threads)]
        for number, policy in zip(range(rounds), itertools.cycle(POLICIES[1:] + POLICIES[:1]), strict=False):
            switch.turn(policy)
            while callers.seen.total() < number * CALLS_A_ROUND and not callers.wrong:
                time.sleep(0.001)
        callers.over = True
        total = sum(call.result() for call in calls)
    seen = [callers.seen[index] for index in range(len(POLICIES))]
    print(json.dumps({"calls": total, "seen": seen, "wrong": callers.wrong, "alive": threading.active_count()}))  # noqa: T201 - the answer


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
