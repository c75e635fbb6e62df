"""Which TensorFlow releases mixdown supports: `refuse_untested` refuses others.

To support a new one, edit NEWEST here, the checked versions in `private`, the pins in pyproject.toml and the versions
of `make test-matrix`.
"""

import os
import re

import tensorflow as tf

from mixdown.errors import MixdownError
from mixdown.keras3 import private as keras3
from mixdown.messages import warn

OLDEST, NEWEST = (2, 16), (2, 21)
"""The releases of TensorFlow that mixdown is tested with."""

VARIABLE = "MIXDOWN_ALLOW_UNTESTED"
RELEASE = re.compile(r"(\d+)\.(\d+)\.\d+(\+[\w.]+)?")
"""A finished release, also of another builder (`2.17.0+nv24.11`), but no release candidate or nightly."""

TESTED = " to ".join(".".join(map(str, each)) for each in (OLDEST, NEWEST))

WAYS_OUT = {
    "tensorflow": f"Use TensorFlow {TESTED}: pip install 'tensorflow>=2.{OLDEST[1]},<2.{NEWEST[1] + 1}'.",
    "keras": keras3.WAY_OUT,
    "tf_keras": "Use the tf_keras of your TensorFlow: pip install 'tf_keras~=X.Y.0' for TensorFlow X.Y.",
}
"""What to install instead."""


def is_tested(version: str) -> bool:
    """Whether mixdown is tested with a version of TensorFlow."""
    found = RELEASE.fullmatch(version)
    return found is not None and OLDEST <= (int(found[1]), int(found[2])) <= NEWEST


def refuse_untested() -> None:
    """Refuse to patch a TensorFlow that mixdown is not tested with; with MIXDOWN_ALLOW_UNTESTED=1 only warn."""
    if is_tested(tf.__version__):
        return
    if os.environ.get(VARIABLE) != "1":
        raise MixdownError(
            f"TensorFlow {tf.__version__} is not one of the releases that mixdown is tested with ({TESTED}): "
            f"nothing was changed. {WAYS_OUT['tensorflow']} To try it all the same, set {VARIABLE}=1."
        )
    warn(f"TensorFlow {tf.__version__} is not tested with mixdown ({TESTED} are), and {VARIABLE}=1 is set.")
