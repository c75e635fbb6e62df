"""What `mixdown doctor` found: `Finding`, and the part that it finds without loading a framework: `at_first_sight`."""

import os
import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Literal, NamedTuple

PACKAGES = ("keras", "tf_keras", "jax", "numpy", "rich")
"""What mixdown works with, besides TensorFlow, if it is installed."""

OWN_PASS = ("TF_ENABLE_AUTO_MIXED_PRECISION", "TF_ENABLE_AUTO_MIXED_PRECISION_GRAPH_REWRITE")
"""Variables that make TensorFlow rewrite graphs itself."""

LISTS = "TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_"
"""The variables that change the lists of TensorFlow's own rewrite begin with this."""


class Finding(NamedTuple):
    """What was found out about one subject."""

    subject: str
    state: Literal["ok", "note", "problem"]
    message: str
    way_out: str = ""


def at_first_sight(own_version: str) -> list[Finding]:
    """Examine what is installed and the environment; the version of mixdown is given."""
    python, mixdown = Finding("python", "ok", platform.python_version()), Finding("mixdown", "ok", own_version)
    return [python, mixdown, *map(_package, PACKAGES), *_troubles()]


def _package(name: str) -> Finding:
    try:
        return Finding(name, "ok", version(name))
    except PackageNotFoundError:
        return Finding(name, "note", "not installed")


def _troubles() -> Iterator[Finding]:
    if find_spec("tensorflow") is None:
        yield Finding("tensorflow", "problem", "not installed", "pip install 'mixdown[tensorflow]'")
    for name in OWN_PASS:
        if os.environ.get(name, "").lower() not in ("", "0", "false"):
            message = "TensorFlow's own rewrite is on, too: both would choose precisions"
            yield Finding(name, "problem", message, f"unset {name}")
    for name in sorted(os.environ):
        if name.startswith(LISTS):
            yield Finding(name, "note", "only has an effect through mixdown.Policy.from_environment()")
    if os.environ.get("TF_USE_LEGACY_KERAS", "") in ("1", "true", "True") and find_spec("tf_keras") is None:
        yield Finding("TF_USE_LEGACY_KERAS", "problem", "set, but tf_keras is not installed", "pip install tf_keras")
