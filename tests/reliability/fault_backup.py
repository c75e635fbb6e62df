"""`fit` with BackupAndRestore that can be killed and started again; prints every step, and at last what came of it.

Arguments: library (keras, tf_keras), directory, epochs. With TF_CONFIG set, this is one worker of several. Every epoch
has the same steps, of which one is spoiled on the last replica.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from typing import Any

import tensorflow as tf
from tests.tensorflow.loss_scaling.optimizers import keras3_training, tf_keras_training

import mixdown

STEPS, BAD = 5, 2
TRAINING: dict[str, Any] = {"keras": keras3_training, "tf_keras": tf_keras_training}


def examples(replicas: int, pipelines: int, pipeline: int) -> Any:
    """The shards of the replicas of one worker, epoch after epoch."""
    mine = range(pipeline * replicas // pipelines, (pipeline + 1) * replicas // pipelines)
    parts = [
        keras3_training.shard(step, replica, bad=step == BAD and replica == replicas - 1)
        for step in range(STEPS)
        for replica in mine
    ]
    x, y = (tf.concat(each, 0) for each in zip(*parts, strict=True))
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(keras3_training.SHARD).repeat()


def optimizer_of(library: str) -> Any:
    law = mixdown.DynamicLossScale(2.0**10, increment_period=7)
    if library == "keras":
        return keras3_training.wrapped(loss_scale=law)
    return tf_keras_training.wrapped(tf_keras_training.bare("new"), law)


def main(library: str, directory: str, epochs: str) -> None:
    workers = "TF_CONFIG" in os.environ
    strategy = tf.distribute.MultiWorkerMirroredStrategy() if workers else tf.distribute.get_strategy()
    with strategy.scope():
        net, optimizer = TRAINING[library].model(), optimizer_of(library)
        net.compile(optimizer, "mse")
    data = (
        strategy.distribute_datasets_from_function(
            lambda at: examples(strategy.num_replicas_in_sync, at.num_input_pipelines, at.input_pipeline_id)
        )
        if workers
        else examples(1, 1, 0)
    )
    callbacks = import_module(library).callbacks
    watch = callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, *_, **__: say({"epoch": epoch, **books(optimizer)}),
        on_train_batch_end=lambda batch, *_, **__: say(batch),
    )
    backup = callbacks.BackupAndRestore(directory)
    with mixdown.rewriting(mixdown.Policy(devices="all")):
        net.fit(data, steps_per_epoch=STEPS, epochs=int(epochs), verbose=0, callbacks=[backup, watch])
    weights = [each.tobytes().hex() for each in net.get_weights()]
    say({"weights": weights, "applied": int(optimizer.iterations.numpy()), **books(optimizer)})
    os._exit(0)  # the collective executor of a worker waits for its peers at a normal exit


def books(optimizer: Any) -> dict[str, Any]:
    account = optimizer.account()
    return {
        "loss_scale": account.loss_scale,
        "steps": account.steps,
        "good_steps": account.good_steps,
        "skipped_steps": account.skipped_steps,
    }


def say(what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
