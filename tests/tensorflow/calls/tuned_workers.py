"""One of several workers that tune a training step together; prints what it kept, and its weights, as JSON.

Arguments: how many steps to make, and how long 16 bits take beside float32 by the clock of this worker. TF_CONFIG names
the cluster.
"""

import json
import sys
from typing import Any
from unittest.mock import patch

import numpy as np
import tensorflow as tf

import mixdown
from mixdown.core import Level
from mixdown.tensorflow.calls import active_policy, tuned_twins
from mixdown.tuning.tuner import Tuner, timed


def plant(ratio: float) -> None:
    """Replace the clock."""
    original, policies = Tuner.next, list[mixdown.Policy]()

    def next_policy(tuner: Any, *rest: Any) -> Any:
        policy, note = original(tuner, *rest)
        policies.append(policy)
        return policy, note

    def clock(call: Any, synchronize: Any, note: Any, *, wait: bool) -> Any:
        seconds = 1.0 if policies[-1].level is Level.NOTHING else ratio
        return timed(call, synchronize, lambda _: note(seconds), wait=wait)

    patch.object(Tuner, "next", next_policy).start()
    patch.object(tuned_twins, "timed", clock).start()


def main(steps: int, ratio: float) -> None:
    plant(ratio)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    task = strategy.cluster_resolver.task_id
    with strategy.scope():
        kernel = tf.Variable(tf.fill([8, 1], 1 / 3))

    def step(x: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.tanh(x @ kernel)))
        gradient = tf.distribute.get_replica_context().all_reduce("mean", tape.gradient(loss, kernel))
        kernel.assign_sub(0.01 * gradient)

    @tf.function
    def train(x: Any) -> None:
        strategy.run(step, args=(x,))

    x = tf.constant(np.random.default_rng(task).normal(size=(16, 8)).astype("float32"))
    policy = mixdown.Policy(low="bfloat16", devices="all", strategy="tuned", expected_calls=1200)
    with mixdown.rewriting(policy):
        for number in range(steps):
            train(x)
            print(f"step {number}", flush=True)  # noqa: T201 - who kills a worker waits for this
    found = [twin.tuned for _, _, twin in active_policy.twins_for(policy).made() if twin.tuned]
    answer = {"kept": [each.policy.to_dict() for each in found if each.kept], "kernel": kernel.numpy().tolist()}
    print(json.dumps(answer), flush=True)  # noqa: T201 - the answer


main(int(sys.argv[1]), float(sys.argv[2]))
