"""Keras fit on JAX: the same line as on TensorFlow. No TensorFlow needs to be installed."""

import os

os.environ["KERAS_BACKEND"] = "jax"  # before Keras is imported

import keras
import numpy as np

import mixdown

rng = np.random.default_rng(0)
images = rng.normal(size=(512, 16, 16, 1)).astype("float32")
labels = (images.mean((1, 2, 3)) > 0).astype("int32")

model = keras.Sequential(
    [
        keras.layers.Input((16, 16, 1)),
        keras.layers.Conv2D(16, 3, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(32, activation="relu"),
        keras.layers.Dense(2),
    ]
)
optimizer = mixdown.enable_mixed_precision_graph_rewrite(  # the one line
    keras.optimizers.Adam(1e-2),
    policy=mixdown.Policy(devices="all"),  # the default policy uses only GPUs
)
model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
history = model.fit(images, labels, batch_size=64, epochs=4, verbose=0)

loss = history.history["loss"]
print(f"loss: {loss[0]:.3f}, then {loss[-1]:.3f}; it fell: {loss[-1] < loss[0]}")
print(f"loss scale {float(optimizer.dynamic_scale):g}, skipped steps: {int(optimizer.skipped_steps)}")
print(mixdown.report())
