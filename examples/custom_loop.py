"""A custom training loop: scale the loss, differentiate it, and let the wrapped optimizer apply the gradients."""

import keras
import numpy as np
import tensorflow as tf

import mixdown

STEPS, BATCH = 60, 64
rng = np.random.default_rng(0)
features = rng.normal(size=(STEPS, BATCH, 32)).astype("float32")
targets = features @ rng.normal(size=(32, 1)).astype("float32")

model = keras.Sequential([keras.layers.Input((32,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(1)])
optimizer = mixdown.enable_mixed_precision_graph_rewrite(
    keras.optimizers.Adam(1e-2), loss_scale="dynamic", policy=mixdown.Policy(devices=("GPU", "CPU"))
)
optimizer.build(model.trainable_variables)


@tf.function
def train_step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """One training step. `apply` unscales the gradients, and skips the step if they are not finite."""
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
        scaled = optimizer.scale_loss(loss)
    optimizer.apply(tape.gradient(scaled, model.trainable_variables), model.trainable_variables)
    return loss


losses = [float(train_step(x, y)) for x, y in zip(features, targets, strict=True)]
print(f"loss: {losses[0]:.2f} in the first step, {losses[-1]:.2f} in the last")

# A batch that overflows is skipped: no weight changes, and the loss scale is halved.
before, scale = [weight.numpy() for weight in model.weights], float(optimizer.dynamic_scale)
train_step(features[0] * np.float32(1e30), targets[0])
unchanged = all(np.array_equal(old, new.numpy()) for old, new in zip(before, model.weights, strict=True))
print(f"skipped steps: {int(optimizer.skipped_steps)}, weights unchanged: {unchanged}")
print(f"loss scale: {scale:g} before, {float(optimizer.dynamic_scale):g} after")
