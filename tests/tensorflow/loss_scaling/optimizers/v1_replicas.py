"""One process of the strategy tests: train under a strategy with NaN on the last replica at some steps, print all.

Arguments: strategy ("mirrored", "one_device", "workers"), number of steps, bad steps as a JSON list, then the forms
to run one after the other ("function", "eager", "session", "update", "outside", "huge"). TF_CONFIG holds the
cluster.
"""

import json
import os
import sys
from typing import Any

import numpy as np
import tensorflow as tf
from tests.tensorflow.loss_scaling.optimizers.v1_training import B0, MOMENTUM, RATE, W0

from mixdown.tensorflow.loss_scaling.loss_scale import DynamicLossScale
from mixdown.tensorflow.loss_scaling.optimizers.v1 import MixedPrecisionLossScaleOptimizer

v1 = tf.compat.v1


def strategy_named(name: str) -> Any:
    if name == "workers":
        return tf.distribute.MultiWorkerMirroredStrategy()
    if name == "one_device":
        return tf.distribute.OneDeviceStrategy("/cpu:0")
    two = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], two)
    return tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])


class Training:
    """The training problem under a strategy."""

    def __init__(self, strategy: Any, scale: DynamicLossScale | None = None) -> None:
        self.strategy = strategy
        with strategy.scope():
            self.w, self.b = tf.Variable(W0, name="w"), tf.Variable(B0, name="b")
            self.count = tf.Variable(0, dtype=tf.int64, trainable=False)
            self.scale = scale or DynamicLossScale(1024.0, 6)
            inner = v1.train.MomentumOptimizer(RATE, MOMENTUM)
            self.optimizer = MixedPrecisionLossScaleOptimizer(inner, self.scale)

    def on_replica(self, bad: tf.Tensor) -> Any:
        """A step of one replica; the last replica has NaN in the gradient of w if the step is bad."""
        replica = tf.distribute.get_replica_context()
        last = tf.equal(replica.replica_id_in_sync_group, replica.num_replicas_in_sync - 1)
        x = tf.where(tf.logical_and(bad, last), np.float32(np.nan), np.float32(1.0))
        return self.optimizer.minimize(
            lambda: x * tf.reduce_sum(self.w**2) / 2.0 + tf.reduce_sum(self.b), self.count, [self.w, self.b]
        )

    def huge_on_replica(self, bad: tf.Tensor) -> Any:
        """A bad step has gradients that are finite on each replica, while their sum is not."""
        gradient = tf.where(bad, tf.fill([2], 3e38), tf.zeros([2]))
        return self.optimizer.apply_gradients([(gradient, self.w)], self.count)

    def update_on_replica(self, bad: tf.Tensor) -> None:
        """Only the loss scale, asked in replica context."""
        replica = tf.distribute.get_replica_context()
        last = tf.equal(replica.replica_id_in_sync_group, replica.num_replicas_in_sync - 1)
        _, applied = self.scale.update([tf.where(tf.logical_and(bad, last), np.float32(np.nan), np.float32(1.0))])
        self.count.assign_add(tf.cast(applied, tf.int64))

    def weights(self) -> list[tf.Variable]:
        slots = [self.optimizer.get_slot(each, "momentum") for each in (self.w, self.b)]
        return [self.w, self.b, *(each for each in slots if each is not None), self.count, *self.scale.weights]

    def copies(self) -> dict[str, Any]:
        """The values of every weight on every replica of this process."""
        results = {each.name: self.strategy.experimental_local_results(each) for each in self.weights()}
        return {name: [each.numpy().tolist() for each in parts] for name, parts in results.items()}


def run_now(training: Training, form: str, steps: int, bad_steps: list[int]) -> dict[str, Any]:
    update = training.update_on_replica
    forms = {"update": update, "outside": update, "huge": training.huge_on_replica}
    on_replica = forms.get(form, training.on_replica)

    def step(bad: tf.Tensor) -> None:
        training.strategy.run(lambda each: on_replica(each) and None, args=(bad,))

    call = step if form == "eager" else tf.function(step, autograph=False)
    skips, scales = [], []
    for number in range(steps):
        before = training.scale.skipped_steps
        call(tf.constant(number in bad_steps))
        scales.append(float(training.scale()))
        if training.scale.skipped_steps > before:
            skips.append(training.scale.last_skipped_step)
    offenders = training.optimizer.offending_variables
    return {"skips": skips, "scales": scales, "offenders": offenders, "copies": training.copies()}


def run_in_session(strategy: Any, steps: int, bad_steps: list[int]) -> dict[str, Any]:
    with tf.Graph().as_default(), strategy.scope(), v1.Session() as session:
        training = Training(strategy)
        fed = v1.placeholder(tf.bool, [])
        done = strategy.experimental_local_results(strategy.run(training.on_replica, args=(fed,)))
        session.run(v1.global_variables_initializer())
        skips, scales, before = [], [], 0
        for number in range(steps):
            session.run(list(done), {fed: number in bad_steps})
            account = training.optimizer.account(session)
            scales.append(account.loss_scale)
            if account.skipped_steps > before:
                skips.append(account.last_skipped_step)
            before = account.skipped_steps
        parts = {each.name: strategy.experimental_local_results(each) for each in training.weights()}
        copies = {name: [each.tolist() for each in session.run(list(every))] for name, every in parts.items()}
        return {"skips": skips, "scales": scales, "offenders": account.offending_variables, "copies": copies}


def run(strategy: Any, form: str, steps: int, bad_steps: list[int]) -> dict[str, Any]:
    if form == "session":
        return run_in_session(strategy, steps, bad_steps)
    scale = DynamicLossScale(1024.0, 6) if form == "outside" else None  # built outside the strategy's scope
    return run_now(Training(strategy, scale), form, steps, bad_steps)


def main(name: str, steps: str, bad_steps: str, *forms: str) -> None:
    strategy = strategy_named(name)
    outcomes = {form: run(strategy, form, int(steps), json.loads(bad_steps)) for form in forms}
    sys.stdout.write(json.dumps(outcomes) + "\n")
    sys.stdout.flush()
    os._exit(0)  # the collective executor of a worker waits for its peers at a normal exit


if __name__ == "__main__":
    main(*sys.argv[1:])
