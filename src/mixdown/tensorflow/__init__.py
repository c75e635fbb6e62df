"""The TensorFlow host: reads graphs into the core, writes plans back, and lifts the scaler into TensorFlow."""

from importlib.util import find_spec

if find_spec("tensorflow") is None:
    raise ImportError("mixdown.tensorflow needs TensorFlow: pip install 'mixdown[tensorflow]'")
