"""MirroredStrategy: all replicas skip a step together. Without two GPUs, the example uses two virtual CPUs."""

import keras
import numpy as np
import tensorflow as tf

import mixdown

if len(tf.config.list_physical_devices("GPU")) > 1:
    strategy = tf.distribute.MirroredStrategy()
else:
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

rng = np.random.default_rng(0)
features = rng.normal(size=(1024, 16)).astype("float32")
labels = (features.sum(1) > 0).astype("int32")
features[900, 0] = np.inf  # one bad example, in the batch of one replica only

with strategy.scope():
    model = keras.Sequential(
        [keras.layers.Input((16,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(2)]
    )
    optimizer = mixdown.enable_mixed_precision_graph_rewrite(
        keras.optimizers.SGD(0.1), policy=mixdown.Policy(devices=("GPU", "CPU"))
    )
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])

model.fit(features, labels, batch_size=64, epochs=3, shuffle=False, verbose=2)
finite = all(np.isfinite(weight.numpy()).all() for weight in model.weights)
print(f"{strategy.num_replicas_in_sync} replicas, skipped steps: {int(optimizer.skipped_steps)}")
print(f"all weights finite: {finite}")
