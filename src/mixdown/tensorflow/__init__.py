"""The TensorFlow host: reads graphs into the core, writes plans back, and lifts the scaler into TensorFlow."""

from importlib.util import find_spec

if find_spec("tensorflow") is None:
    raise ImportError("mixdown.tensorflow needs TensorFlow: pip install 'mixdown[tensorflow]'")

from mixdown.tensorflow.runtime import private

# Autograph rewrites the source of whatever a tf.function calls, unless it stands on this list, on which TensorFlow and
# Keras put themselves. Our code means what it says, too. A TensorFlow without the list is told of when it is patched.
_config = private.autograph_config
if not isinstance(_config, private.Missing):
    _config.CONVERSION_RULES = (_config.DoNotConvert("mixdown"), *_config.CONVERSION_RULES)
