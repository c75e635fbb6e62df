"""One process of the resume tests: train steps [first, last), reading and writing a checkpoint, print the state.

Both forms, `tf.train.Checkpoint` and the v1 Saver, run one after the other. Arguments: directory, first step, last
step.
"""

import json
import sys

import numpy as np
import tensorflow as tf

from mixdown.tensorflow.loss_scaling.loss_scale import DynamicLossScale
from mixdown.tensorflow.loss_scaling.optimizers.v1 import MixedPrecisionLossScaleOptimizer

v1 = tf.compat.v1
XS = np.where(np.arange(40) % 7 == 3, np.nan, np.linspace(0.1, 1.3, 40)).astype(np.float32)


def optimizer() -> MixedPrecisionLossScaleOptimizer:
    return MixedPrecisionLossScaleOptimizer(v1.train.AdamOptimizer(0.01), DynamicLossScale(2.0**10, 4))


def loss(w: tf.Variable, x: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.sin(w) * x)


def by_checkpoint(directory: str, first: int, last: int) -> list[str]:
    w, step, wrapped = tf.Variable([0.1, 0.7, -0.3]), tf.Variable(0, dtype=tf.int64), optimizer()
    checkpoint = tf.train.Checkpoint(w=w, step=step, optimizer=wrapped)
    if first:
        checkpoint.restore(tf.train.latest_checkpoint(directory))
    call = tf.function(lambda x: wrapped.minimize(lambda: loss(w, x), step, [w]) and None, autograph=False)
    for x in XS[first:last]:
        call(tf.constant(x))
    checkpoint.save(f"{directory}/model")
    return [repr(each.numpy().tolist()) for each in (w, step, *wrapped.variables())] + [repr(wrapped.account())]


def by_saver(directory: str, first: int, last: int) -> list[str]:
    with tf.Graph().as_default(), v1.Session() as session:
        w = v1.get_variable("w", initializer=[0.1, 0.7, -0.3])
        step, wrapped, fed = v1.train.get_or_create_global_step(), optimizer(), v1.placeholder(tf.float32, [])
        operation = wrapped.minimize(loss(w, fed), step)
        saver = v1.train.Saver()
        if first:
            saver.restore(session, f"{directory}/model")
        else:
            session.run(v1.global_variables_initializer())
        for x in XS[first:last]:
            session.run(operation, {fed: x})
        saver.save(session, f"{directory}/model")
        values = session.run([w, step, *wrapped.variables()])
        return [repr(each.tolist()) for each in values] + [repr(wrapped.account(session))]


if __name__ == "__main__":
    place, steps = sys.argv[1], (int(sys.argv[2]), int(sys.argv[3]))
    states = {"checkpoint": by_checkpoint(f"{place}/checkpoint", *steps), "saver": by_saver(f"{place}/saver", *steps)}
    sys.stdout.write(json.dumps(states) + "\n")
