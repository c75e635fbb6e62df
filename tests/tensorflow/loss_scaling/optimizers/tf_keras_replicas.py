"""Runs under one distribution strategy, in a process of their own; prints what came of them as one line of JSON.

Arguments: strategy (mirrored, one_device, workers), steps, bad steps, then the runs: a style (new, legacy) and a loop
(fit, custom, or unsummed, where every replica sees the same examples and their gradients are not summed) each.
The last replica alone gets a NaN at each bad step.
"""

import json
import sys
from functools import partial
from typing import Any

import tensorflow as tf
import tf_keras
from tests.tensorflow.loss_scaling.optimizers.tf_keras_training import bare, model, shard, squared_error, wrapped


def strategy_named(name: str) -> Any:
    if name == "workers":
        return tf.distribute.MultiWorkerMirroredStrategy()
    if name == "one_device":
        return tf.distribute.OneDeviceStrategy("/cpu:0")
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def main(kind: str, steps: str, bad: str, *jobs: str) -> None:
    strategy = strategy_named(kind)
    results = {job: outcome(strategy, job, int(steps), json.loads(bad)) for job in jobs}
    print(json.dumps(results))  # noqa: T201 - the answer


def outcome(strategy: Any, job: str, steps: int, bad: list[int]) -> dict[str, Any]:
    style, loop = job.split()
    with strategy.scope():
        net, optimizer = model(), wrapped(bare(style))
    loops: dict[str, Any] = {"fit": by_fit, "custom": by_hand, "unsummed": partial(by_hand, summed=False)}
    skipped = loops[loop](strategy, net, optimizer, steps, bad)
    local = strategy.experimental_local_results
    return {
        "skipped": skipped,
        "scales": [float(each) for each in local(optimizer._loss_scale.weight("current_loss_scale"))],
        "weights": [[part.numpy().tobytes().hex() for part in local(each)] for each in net.weights],
        "iterations": int(optimizer.iterations.numpy()),
        "offenders": optimizer.offending_variables,
    }


def by_hand(strategy: Any, net: Any, optimizer: Any, steps: int, bad: list[int], *, summed: bool = True) -> list[int]:
    replicas = strategy.num_replicas_in_sync if summed else 1

    def step(x: Any, y: Any) -> None:
        with tf.GradientTape() as tape:
            loss = optimizer.get_scaled_loss(squared_error(net, x, y, replicas))
        gradients = optimizer.get_unscaled_gradients(tape.gradient(loss, net.trainable_variables))
        pairs = zip(gradients, net.trainable_variables, strict=True)
        optimizer.apply_gradients(pairs, experimental_aggregate_gradients=summed)

    @tf.function
    def train(x: Any, y: Any) -> None:
        strategy.run(step, args=(x, y))

    skipped = []
    for number in range(steps):
        part = shards(strategy, number, bad, alike=not summed)
        train(
            strategy.experimental_distribute_values_from_function(lambda at, part=part: part(at)[0]),
            strategy.experimental_distribute_values_from_function(lambda at, part=part: part(at)[1]),
        )
        if optimizer.last_skipped_step == number:
            skipped.append(number)
    return skipped


def shards(strategy: Any, number: int, bad: list[int], *, alike: bool) -> Any:
    last = strategy.num_replicas_in_sync - 1

    def part(at: Any) -> Any:
        replica = at.replica_id_in_sync_group
        spoiled = number in bad and replica == last
        return [tf.constant(each) for each in shard(number, 0 if alike else replica, bad=spoiled)]

    return part


def by_fit(strategy: Any, net: Any, optimizer: Any, steps: int, bad: list[int]) -> list[int]:
    with strategy.scope():
        net.compile(optimizer, "mse")
    skipped: list[int] = []

    def note(batch: int, _logs: Any) -> None:
        if optimizer.last_skipped_step == batch:
            skipped.append(batch)

    data = strategy.distribute_datasets_from_function(lambda at: examples(strategy, at, steps, bad))
    watch = tf_keras.callbacks.LambdaCallback(on_train_batch_end=note)
    net.fit(data, steps_per_epoch=steps, epochs=1, verbose=0, callbacks=[watch])
    return skipped


def examples(strategy: Any, at: Any, steps: int, bad: list[int]) -> Any:
    """The shards of the replicas of one worker, in the order in which they are handed out."""
    replicas = strategy.num_replicas_in_sync
    here = replicas // at.num_input_pipelines
    mine = range(at.input_pipeline_id * here, (at.input_pipeline_id + 1) * here)
    parts = [
        shard(step, replica, bad=step in bad and replica == replicas - 1) for step in range(steps) for replica in mine
    ]
    return tf.data.Dataset.from_generator(
        lambda: iter(parts),
        output_signature=(tf.TensorSpec([4, 4], tf.float32), tf.TensorSpec([4, 1], tf.float32)),
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
