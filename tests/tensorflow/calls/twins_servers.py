"""One task of a parameter-server cluster, in a process of its own; the chief prints what came of it as JSON.

Arguments: the task (chief, worker, ps) and the cluster as JSON.
"""

import json
import sys
from typing import Any

import numpy as np
import tensorflow as tf

LARGE = [[300.0]]


def serve(task: str, cluster: Any) -> None:
    server = tf.distribute.Server(cluster, job_name=task, task_index=0, protocol="grpc", start=True)
    server.join()


def lead(cluster: Any) -> None:
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster, rpc_layer="grpc")
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    import mixdown  # noqa: PLC0415 - the cluster is connected first
    from mixdown.tensorflow.calls import active_policy  # noqa: PLC0415 - as above

    with strategy.scope():
        weights = tf.Variable(tf.ones((1, 1)))

    @tf.function
    def square(x: Any) -> Any:
        return tf.matmul(x, x)

    @tf.function
    def train(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.matmul(x, weights))
        weights.assign_sub(0.5 * tape.gradient(loss, weights))
        return loss

    def scheduled(function: Any, x: Any) -> float:
        value = coordinator.schedule(function, args=(tf.constant(x),))
        coordinator.join()
        return float(np.asarray(value.fetch()).item())

    def on_worker() -> float:
        with tf.device("/job:worker/replica:0/task:0/device:CPU:0"):
            return float(square(tf.constant(LARGE)).numpy().item())

    answers: dict[str, Any] = {"plain": [scheduled(square, LARGE), on_worker()]}
    plain = tf.compat.v1.train.GradientDescentOptimizer(0.5)
    mixdown.enable_mixed_precision_graph_rewrite(plain, policy=mixdown.Policy(devices="all"))
    answers["mixed"] = [scheduled(square, LARGE), on_worker()]
    answers["losses"] = [scheduled(train, [[0.5]]) for _ in range(3)]
    answers["weights"] = float(weights.numpy().item())
    answers["twins"] = sorted({twin.name.decode() for twin in active_policy.current().known.values() if twin.originals})  # type: ignore[union-attr]
    mixdown.disable_mixed_precision_graph_rewrite()
    answers["after"] = [scheduled(square, LARGE), on_worker()]
    print(json.dumps(answers), flush=True)  # noqa: T201 - the answer


if __name__ == "__main__":
    task, members = sys.argv[1:]
    spec = tf.train.ClusterSpec(json.loads(members))
    if task == "chief":
        lead(spec)
    else:
        serve(task, spec)
