"""Numerics tools for mixed precision: find where numbers go bad, measure them, compare and mend.

Everything in this package is free of any framework; the tools themselves are resolved on first use.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "LocateCallback": "mixdown.tensorflow.numerics.callback",
    "calibration": "mixdown.tensorflow.numerics.calibrate",
    "compare": "mixdown.tensorflow.numerics.compare",
    "load_policy": "mixdown.numerics.policy_file",
    "locate": "mixdown.tensorflow.numerics.locate",
    "locating": "mixdown.tensorflow.numerics.locate",
    "save_policy": "mixdown.numerics.policy_file",
    "statistics": "mixdown.tensorflow.numerics.statistics",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605 - the table above holds the names


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a class or a function
    """Import the module behind a name when the name is first asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module 'mixdown.numerics' has no attribute {name!r}; it has {', '.join(__all__)}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
