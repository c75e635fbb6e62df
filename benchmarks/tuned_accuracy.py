"""Accuracy of a training that is tuned meanwhile, compared with float32, on scikit-learn's digits.

Run `python benchmarks/tuned_accuracy.py`. Each seed trains the same network twice with the same batches: in float32,
and with loss scaling and tuning from an empty cache folder, which takes most of the steps. Target: the 95 % interval of
the mean difference holds 0.
"""

import argparse
import os
import tempfile
from math import sqrt
from statistics import mean, stdev

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import mixdown
from mixdown.tuning.memory import VARIABLE, Tuned, everything

EPOCHS, BATCH = 8, 32
T = {5: 2.571, 9: 2.262, 19: 2.093}  # Student's t for 95 %, by degrees of freedom


def network() -> keras.Model:
    """One convolution and two dense layers."""
    layers = keras.layers
    inner = [layers.Conv2D(16, 3, activation="relu"), layers.Flatten(), layers.Dense(64, activation="relu")]
    return keras.Sequential([keras.Input((8, 8, 1)), *inner, layers.Dense(10)])


def accuracy(seed: int, policy: mixdown.Policy | None) -> float:
    """Train once; returns the accuracy on what was held back."""
    keras.utils.set_random_seed(seed)
    digits = load_digits()
    images = digits.images[..., None].astype("float32") / 16
    x, x_test, y, y_test = train_test_split(images, digits.target, test_size=0.3, random_state=seed)
    model, optimizer = network(), keras.optimizers.Adam(1e-3)
    if policy:
        optimizer = mixdown.enable_mixed_precision_graph_rewrite(optimizer, policy=policy)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, jit_compile=False)
    model.fit(x, y, batch_size=BATCH, epochs=EPOCHS, verbose=0)
    if policy:
        mixdown.disable_mixed_precision_graph_rewrite()
    return float(np.mean(model.predict(x_test, verbose=0).argmax(-1) == y_test))


def compared(seed: int, low: str) -> float:
    """The accuracy of a tuned training less that of float32."""
    policy = mixdown.Policy(low=low, devices="all", strategy="tuned")
    with tempfile.TemporaryDirectory() as folder:
        os.environ[VARIABLE] = folder
        plain, tuned = accuracy(seed, None), accuracy(seed, policy)
        kept = [
            f"{each}, {sum(trial.calls for trial in each.trials)} timed"
            for each in everything().values()
            if isinstance(each, Tuned)
        ]
    print(f"{low:<8} | {seed:>4} | {plain:>7.4f} | {tuned:>6.4f} | {'; '.join(kept)}", flush=True)
    return tuned - plain


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Accuracy of a training that is tuned meanwhile")
    parser.add_argument("--seeds", type=int, default=10, choices=[freedom + 1 for freedom in T])
    parser.add_argument("--lows", nargs="+", default=("float16", "bfloat16"))
    asked = parser.parse_args()
    print("dtype    | seed | float32 | tuned  | kept")
    for low in asked.lows:
        found = [compared(seed, low) for seed in range(asked.seeds)]
        middle, error = mean(found), T[len(found) - 1] * stdev(found) / sqrt(len(found))
        print(f"{low}: tuned - float32 is {middle:+.4f}, 95 % interval {middle - error:+.4f} to {middle + error:+.4f}")


if __name__ == "__main__":
    main()
