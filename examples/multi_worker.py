"""MultiWorkerMirroredStrategy with two workers: two processes on this machine, both of which run this script."""

import json
import os
import socket
import subprocess
import sys

WORKERS = 2


def free_ports(count: int) -> list[int]:
    """Find ports that are not in use."""
    sockets = [socket.create_server(("localhost", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def start_workers() -> None:
    """Start all workers, each with its own TF_CONFIG, and wait for them."""
    cluster = {"worker": [f"localhost:{port}" for port in free_ports(WORKERS)]}
    workers = []
    for index in range(WORKERS):
        task = {"cluster": cluster, "task": {"type": "worker", "index": index}}
        environment = {**os.environ, "TF_CONFIG": json.dumps(task)}
        workers.append(subprocess.Popen([sys.executable, __file__], env=environment))  # noqa: S603 - this very script
    codes = [worker.wait() for worker in workers]
    if any(codes):
        sys.exit("a worker failed")


def work() -> None:
    """Train as one of the workers."""
    import numpy as np  # noqa: PLC0415 - only workers need it
    import tensorflow as tf  # noqa: PLC0415 - the same

    import mixdown  # noqa: PLC0415 - the same

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    features = np.random.default_rng(0).normal(size=(64, 8)).astype("float32")
    targets = features @ np.ones((8, 1), "float32")

    def batches(context: tf.distribute.InputContext) -> tf.data.Dataset:
        data = tf.data.Dataset.from_tensor_slices((features, targets))
        return data.shard(context.num_input_pipelines, context.input_pipeline_id).batch(16).repeat()

    with strategy.scope():
        kernel = tf.Variable(tf.zeros([8, 1]))

    def step(x: tf.Tensor, y: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(x @ kernel - y))
        gradient = tf.distribute.get_replica_context().all_reduce("mean", tape.gradient(loss, kernel))
        kernel.assign_sub(0.1 * gradient)

    @tf.function
    def train(iterator: tf.distribute.DistributedIterator) -> None:
        for _ in tf.range(40):
            strategy.run(step, args=next(iterator))

    data = strategy.distribute_datasets_from_function(batches)
    with mixdown.rewriting(mixdown.Policy(devices=("GPU", "CPU"))):
        train(iter(data))
    index = strategy.cluster_resolver.task_id
    print(f"worker {index}: error {np.abs(kernel.numpy() - 1).max():.4f}, sum {kernel.numpy().sum():.6f}", flush=True)


if "TF_CONFIG" in os.environ:
    work()
else:
    start_workers()
