"""Keras fit in mixed precision with one more line of code, and a report on what was rewritten."""

import keras
import numpy as np

import mixdown

rng = np.random.default_rng(0)
images = rng.normal(size=(2048, 16, 16, 1)).astype("float32")
labels = (images.mean((1, 2, 3)) > 0).astype("int32")

model = keras.Sequential(
    [
        keras.layers.Input((16, 16, 1)),
        keras.layers.Conv2D(16, 3, activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Flatten(),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(2),
    ]
)
optimizer = mixdown.enable_mixed_precision_graph_rewrite(  # the one line
    keras.optimizers.Adam(1e-3),
    policy=mixdown.Policy(devices=("GPU", "CPU")),  # the default policy uses only GPUs with Tensor Cores
)
model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
model.fit(images, labels, batch_size=64, epochs=4, verbose=2)

print(f"loss scale {float(optimizer.dynamic_scale):g}, skipped steps: {int(optimizer.skipped_steps)}")
report = mixdown.report()
print(report)
print(f"Every op with its reason: {report.save('keras_fit.html')}")
