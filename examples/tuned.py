"""Tuned plans: the first steps of a training run several plans in turn, and the fastest is kept, float32 if none is."""

import os
import tempfile
from pathlib import Path

import keras
import numpy as np

import mixdown

os.environ["MIXDOWN_CACHE"] = tempfile.mkdtemp()  # for this example only: what is found out is kept for the next run

keras.utils.set_random_seed(1)
x = np.random.default_rng(1).normal(size=(4096, 64)).astype("float32")
y = (x[:, 0] > 0).astype("int32")
layers = [keras.layers.Dense(256, activation="relu") for _ in range(3)]
model = keras.Sequential([keras.Input((64,)), *layers, keras.layers.Dense(2)])

policy = mixdown.Policy(strategy="tuned", low="float16", or_low="bfloat16", devices="all")
optimizer = mixdown.enable_mixed_precision_graph_rewrite(keras.optimizers.Adam(1e-3), policy=policy)
model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
history = model.fit(x, y, batch_size=64, epochs=5, verbose=0)
print(f"accuracy while it was tuned and after: {history.history['accuracy'][-1]:.2f}")

step = max(mixdown.report().graphs, key=lambda graph: len(graph.trials))
print(step.tuned)
for trial in step.trials:
    print(f"  {trial.seconds * 1e3:7.2f} ms  {trial.ratio:5.2f} of float32  {trial.name}")

# A file that reproduces the choice anywhere, without timing anything.
path = mixdown.tuned_policy().save(Path(os.environ["MIXDOWN_CACHE"], "policy.json"))
print("the same choice from the file:", mixdown.Policy.load(path).choices == mixdown.tuned_policy().choices)
