"""The TensorFlow host: reads graphs into the core, writes plans back, and lifts the scaler into TensorFlow."""

from importlib.util import find_spec

if find_spec("tensorflow") is None:
    raise ImportError("mixdown.tensorflow needs TensorFlow: pip install 'mixdown[tensorflow]'")

# Private: autograph rewrites the source of whatever a tf.function calls, unless it stands on this list, on which
# TensorFlow and Keras put themselves. Our code means what it says, too. Checked on TensorFlow 2.16 to 2.21.
from tensorflow.python.autograph.core import config

config.CONVERSION_RULES = (config.DoNotConvert("mixdown"), *config.CONVERSION_RULES)
