"""Runs under one distribution strategy, in a process of their own; prints what came of them as one line of JSON.

Arguments: strategy (mirrored, one_device, workers), steps, bad steps, then the runs: whose wrapper (ours, theirs) and
which loop (fit, custom) each. The last replica alone gets a NaN at each bad step.
"""

import json
import sys
from typing import Any

import keras
import tensorflow as tf
from tests.tensorflow.loss_scaling.optimizers.keras3_training import SHARD, adam, model, shard, squared_error, wrapped

WRAPS = {"ours": wrapped, "theirs": keras.optimizers.LossScaleOptimizer}


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
    whose, loop = job.split()
    with strategy.scope():
        net, optimizer = model(), WRAPS[whose](adam())
        optimizer.build(net.trainable_variables)
    train = by_fit if loop == "fit" else by_hand
    skipped = train(strategy, net, optimizer, steps, bad)
    local = strategy.experimental_local_results
    return {
        "skipped": skipped,
        "scales": [float(each) for each in local(optimizer.dynamic_scale.value)],
        "weights": [[part.numpy().tobytes().hex() for part in local(each.value)] for each in net.weights],
        "iterations": int(optimizer.iterations.numpy()),
        "offenders": optimizer.offending_variables if whose == "ours" else [],
    }


def by_hand(strategy: Any, net: Any, optimizer: Any, steps: int, bad: list[int]) -> list[int]:
    def step(x: Any, y: Any) -> None:
        with tf.GradientTape() as tape:
            loss = optimizer.scale_loss(squared_error(net, x, y, strategy.num_replicas_in_sync))
        gradients = tape.gradient(loss, net.trainable_variables)
        optimizer.apply(gradients, net.trainable_variables)

    @tf.function
    def train(x: Any, y: Any) -> None:
        strategy.run(step, args=(x, y))

    skipped: list[int] = []
    for number in range(steps):
        train(*(values(strategy, number, bad, part) for part in (0, 1)))
        note(optimizer, number, skipped)
    return skipped


def values(strategy: Any, number: int, bad: list[int], part: int) -> Any:
    last = strategy.num_replicas_in_sync - 1

    def of(at: Any) -> Any:
        replica = at.replica_id_in_sync_group
        return tf.constant(shard(number, replica, bad=number in bad and replica == last)[part])

    return strategy.experimental_distribute_values_from_function(of)


def by_fit(strategy: Any, net: Any, optimizer: Any, steps: int, bad: list[int]) -> list[int]:
    net.compile(optimizer, "mse", jit_compile=False)
    skipped: list[int] = []
    watch = keras.callbacks.Callback()
    watch.on_train_batch_end = lambda batch, **_: note(optimizer, batch, skipped)
    last = strategy.num_replicas_in_sync - 1
    parts = [shard(step, at, bad=step in bad and at == last) for step in range(steps) for at in range(last + 1)]
    x, y = (tf.concat(each, 0) for each in zip(*parts, strict=True))
    net.fit(x, y, batch_size=SHARD * (last + 1), shuffle=False, verbose=0, callbacks=[watch])
    return skipped


def note(optimizer: Any, number: int, skipped: list[int]) -> None:
    if getattr(optimizer, "last_skipped_step", None) == number:
        skipped.append(number)


if __name__ == "__main__":
    main(*sys.argv[1:])
