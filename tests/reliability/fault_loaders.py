"""Training fed by workers of several kinds, all in one process after another; prints the weights as one line of JSON.

TensorFlow is imported in `main`: spawned workers import this module, and must not import TensorFlow.
"""

from __future__ import annotations

import faulthandler
import json
import multiprocessing
import os
from typing import TYPE_CHECKING, Any

from tests.reliability.fault_batches import batch, batch_with_mixdown

if TYPE_CHECKING:
    from collections.abc import Iterator

STEPS = 12


def from_here() -> Iterator[Any]:
    return map(batch, range(STEPS))


def from_pool(pool: Any, work: Any = batch) -> Iterator[Any]:
    return pool.imap(work, range(STEPS))


def main() -> None:
    faulthandler.dump_traceback_later(200, exit=True)
    early = multiprocessing.get_context("fork").Pool(2)
    import tensorflow as tf  # noqa: PLC0415 - see above

    import mixdown  # noqa: PLC0415 - see above

    def trained(batches: Iterator[Any]) -> tuple[str, bool]:
        """The weights after training mixed, and whether other processes made the batches."""
        weights = tf.Variable(tf.ones([4, 1]))
        optimizer = mixdown.enable_mixed_precision_graph_rewrite(
            tf.compat.v1.train.MomentumOptimizer(0.05, 0.9), policy=mixdown.Policy(devices="all")
        )

        @tf.function
        def step(x: Any, y: Any) -> None:
            loss = lambda: tf.reduce_mean(tf.square(tf.matmul(x, weights) - y))  # noqa: E731 - what minimize takes
            optimizer.minimize(loss, var_list=[weights])

        makers = set()
        for maker, x, y in batches:
            makers.add(int(maker))
            step(tf.constant(x), tf.constant(y))
        mixdown.disable_mixed_precision_graph_rewrite()
        return weights.numpy().tobytes().hex(), os.getpid() not in makers

    def dataset(pool: Any) -> Iterator[Any]:
        """A tf.data pipeline over a pool: its threads run while processes are forked."""
        kinds = (tf.TensorSpec([], tf.int64), tf.TensorSpec([8, 4]), tf.TensorSpec([8, 1]))
        data = tf.data.Dataset.from_generator(lambda: from_pool(pool), output_signature=kinds)
        doubled = data.map(lambda maker, x, y: (maker, x + tf.matmul(x, tf.zeros([4, 4])), y), num_parallel_calls=2)
        return doubled.prefetch(2).as_numpy_iterator()

    answers = {"from here": trained(from_here()), "forked before": trained(from_pool(early))}
    tf.function(lambda x: x @ x)(tf.ones([2, 2]))  # dead at once: forked workers collect it
    with multiprocessing.get_context("fork").Pool(2) as late:
        answers["forked after"] = trained(from_pool(late))
        answers["tf.data over forked"] = trained(dataset(late))
    mixdown.enable_mixed_precision_graph_rewrite(
        tf.compat.v1.train.GradientDescentOptimizer(0.5), policy=mixdown.Policy(devices="all")
    ).usage.note_scaled()
    with multiprocessing.get_context("fork").Pool(2) as enabled:
        answers["forked while enabled"] = trained(from_pool(enabled))
    with multiprocessing.get_context("spawn").Pool(2) as spawned:
        answers["spawned"] = trained(from_pool(spawned, batch_with_mixdown))
    early.terminate()
    print(json.dumps(answers))  # noqa: T201 - the answer


if __name__ == "__main__":
    main()
