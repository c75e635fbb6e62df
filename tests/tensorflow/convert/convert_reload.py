"""Loads converted models where there is no mixdown: `python -m tests.tensorflow.convert.convert_reload folder...`."""

import pickle
import sys
from pathlib import Path

sys.modules["mixdown"] = None  # type: ignore[assignment]  # any import of it fails now

from tests.tensorflow.convert import convert_models  # noqa: E402 - after the line above

for folder in map(Path, sys.argv[1:]):
    inputs = pickle.loads((folder.parent / "inputs.pickle").read_bytes())  # noqa: S301 - our own file
    outputs = convert_models.run(folder, inputs)
    (folder.parent / "outputs.pickle").write_bytes(pickle.dumps(outputs))
