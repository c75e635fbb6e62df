"""A long life in one process: train, retrace, switch policies, drop functions, make sessions; prints samples as JSON.

Arguments: steps, steps in a turn, and whether mixdown is in it (mixed, plain). The plain life is the same without
mixdown: what grows there is TensorFlow's. After every round of four turns a sample is taken, always at the same place
of the round: [step, resident bytes, functions registered, entries remembered].
"""

from __future__ import annotations

import ctypes
import gc
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

# Private: the functions that TensorFlow has registered. Checked on TensorFlow 2.16 to 2.21.
from tensorflow.python.eager import context as eager_context

import mixdown
from mixdown import messages
from mixdown.scaling import misuse
from mixdown.tensorflow.calls import active_policy

v1 = tf.compat.v1
POLICIES = (
    mixdown.Policy(devices="all"),
    mixdown.Policy(low="bfloat16", devices="all"),
    mixdown.Policy(devices="all").with_keep("MatMul"),
)
ROUND = 4  # turns: one for every policy, and one without


class Life:
    """One process's training; `step` is all that happens to it."""

    def __init__(self, turn: int, *, mixed: bool) -> None:
        self.turn, self.mixed = turn, mixed
        self.weights = tf.Variable(tf.ones([4, 4]) * 0.1)
        self.optimizer: Any = None
        self.train: Any = None

    def step(self, number: int) -> None:
        if number % self.turn == 0:
            self.switch(number // self.turn % ROUND)
        if number % (ROUND * self.turn) == 0:
            session_life(number)
        rows = 2 + number % 2  # another shape at the second step of a function: it is traced again
        bad = number % self.turn == self.turn - 1
        self.train(tf.fill([rows, 4], np.nan if bad else 0.5))

    def switch(self, turn: int) -> None:
        """Another policy, with an optimizer of its own, or none; and a new function in any case."""
        bare = v1.train.MomentumOptimizer(0.01, 0.9)
        if not self.mixed:
            self.optimizer = bare
        elif turn == ROUND - 1:
            mixdown.disable_mixed_precision_graph_rewrite()
        else:
            self.optimizer = mixdown.enable_mixed_precision_graph_rewrite(bare, policy=POLICIES[turn])
        self.train = self.function()

    def function(self) -> Any:
        """A new function; the one before is dropped."""
        optimizer, weights = self.optimizer, self.weights
        inner = tf.function(lambda x: tf.nn.relu(tf.matmul(x, weights)))

        @tf.function
        def train(x: Any) -> None:
            optimizer.minimize(lambda: tf.reduce_mean(tf.square(inner(inner(x)))), var_list=[weights])

        return train


def session_life(number: int) -> None:
    """A session that comes, runs, grows, and goes."""
    with tf.Graph().as_default(), v1.Session() as session:
        x = tf.fill([2, 2], float(number % 7))
        session.run(tf.matmul(x, x))
        session.run(tf.matmul(x, x) + 1.0)


def sample(step: int) -> list[int]:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what the allocator keeps for later is not in use
    pages = int(Path("/proc/self/statm").read_text("utf-8").split()[1])
    names = eager_context.context().list_function_names()
    return [step, pages * 4096, len([each for each in names if not each.startswith("__wrapped__")]), remembered()]


def remembered() -> int:
    """How many entries mixdown holds in all tables of the process."""
    tables = [table for twins in active_policy.all_twins() for table in vars(twins).values() if isinstance(table, dict)]
    return sum(map(len, tables)) + len(messages.given()) + len(misuse._watched) + len(active_policy.all_twins())


def main(steps: int, turn: int, *, mixed: bool) -> None:
    warnings.simplefilter("error")
    life, samples = Life(turn, mixed=mixed), []
    for number in range(steps):
        life.step(number)
        if (number + 1) % (ROUND * turn) == 0:
            samples.append(sample(number))
    print(json.dumps(samples))  # noqa: T201 - the answer


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), mixed=sys.argv[3] == "mixed")
