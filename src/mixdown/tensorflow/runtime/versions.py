"""The versions that reports name: `versions`.

It is not in `releases`, which `private` imports: mypy cannot type what comes from the `__getattr__` of `private` if
that is in an import cycle, and the stub of the package `mixdown` imports everything.
"""

import tensorflow as tf

from mixdown import __version__


def versions() -> dict[str, str]:
    """The versions of mixdown and of TensorFlow that are loaded."""
    return {"mixdown": __version__, "tensorflow": tf.__version__}
