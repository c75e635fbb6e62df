"""The TensorFlow host: reads graphs into the core, writes plans back, and runs loss scaling in TensorFlow.

What comes in is the user's program (functions, sessions, saved graphs) and a policy; what goes out is the same program
with ops in 16 bits, and reports on it. The doors are `enable`, `explaining`, `convert`, `numerics` and `writing`.
"""

from importlib.util import find_spec

if find_spec("tensorflow") is None:
    raise ImportError("mixdown.tensorflow needs TensorFlow: pip install 'mixdown[tensorflow]'")

from mixdown.private_names import Missing
from mixdown.tensorflow.runtime import private

# Autograph rewrites the source of every function that a tf.function calls, except for packages on this list, on which
# TensorFlow and Keras put themselves. mixdown's code is not written for it either. If this TensorFlow has no such list,
# `private.refuse_missing` says so when mixed precision is enabled.
_config = private.autograph_config
if not isinstance(_config, Missing):
    _config.CONVERSION_RULES = (_config.DoNotConvert("mixdown"), *_config.CONVERSION_RULES)
