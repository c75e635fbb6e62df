"""Convert a SavedModel, then serve it in a process without mixdown."""

import subprocess
import sys
from pathlib import Path
from tempfile import mkdtemp

import keras

import mixdown

SERVER = """
import sys
sys.modules["mixdown"] = None  # as on a server where mixdown is not installed
import numpy as np, tensorflow as tf
original, converted = (tf.saved_model.load(path).signatures["serving_default"] for path in sys.argv[1:])
print("signature:", converted.structured_input_signature[1], "->", converted.structured_outputs)
x = np.random.default_rng(0).normal(size=(32, 256)).astype("float32")
scores = [next(iter(serve(tf.constant(x)).values())).numpy() for serve in (original, converted)]
print(f"largest difference between the scores: {abs(scores[0] - scores[1]).max():.4f}")
print(f"same answers: {(scores[0].argmax(1) == scores[1].argmax(1)).mean():.0%}")
"""


def megabytes(folder: Path) -> float:
    """The size of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


folder = Path(mkdtemp())
model = keras.Sequential(
    [keras.layers.Input((256,)), keras.layers.Dense(1024, activation="relu"), keras.layers.Dense(10)]
)
model.export(folder / "original", verbose=False)

# The same on the command line: mixdown convert original converted --weights low
done = mixdown.convert_saved_model(folder / "original", folder / "converted", weights="low")
print(done)
print(
    f"{megabytes(folder / 'original'):.1f} MB before, {megabytes(folder / 'converted'):.1f} MB after, report included"
)
print(f"stored in 16 bits: {', '.join(done.low_variables)}")
print(f"report: {done.page}")

command = [sys.executable, "-c", SERVER, str(folder / "original"), str(folder / "converted")]
subprocess.run(command, check=True)  # noqa: S603 - our own interpreter
