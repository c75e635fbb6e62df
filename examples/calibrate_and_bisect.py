"""Find the ops that must stay in float32: `calibrate` by the ranges of their values, `bisect` by trial runs."""

import numpy as np
import tensorflow as tf

import mixdown

policy = mixdown.Policy(devices="all")  # includes the CPU, so that the example works on any machine
weights = tf.Variable(np.eye(4, dtype="float32"))
batches = [tf.constant(np.random.default_rng(seed).uniform(0.5, 1.0, (4, 4)), tf.float32) for seed in range(3)]


@tf.function
def network(x: tf.Tensor) -> tf.Tensor:
    """Three products, of which two need float32."""
    x = tf.matmul(x, weights, name="calm")
    x = tf.matmul(x * 1e5, weights, name="huge") * 1e-5  # overflows float16
    far = tf.concat([x + 1000.0, tf.fill([4, 4], -1000.0)], 1)
    return tf.matmul(far, tf.concat([weights, weights], 0), name="cancelling")  # cancellation: 1000 - 1000


safe = mixdown.calibrate(network, batches, policy=policy)
print("kept because of their ranges:", [rule.name for rule in safe.overrides])

repair = mixdown.bisect(network, batches, tolerance=5e-3, policy=safe)
print(f"{repair.runs} runs, largest error {repair.error:.1e}")

with mixdown.rewriting(repair.policy):
    mixed = network(batches[0])
print("close to float32:", np.allclose(mixed, network(batches[0]), rtol=5e-3))
