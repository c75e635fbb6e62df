"""The numerics tools: locate Inf and NaN, measure ranges, compare with float32, calibrate and repair policies.

The modules of this room are pure: 16-bit formats, counts of numbers (`Tally`), the search for ops to keep, and the
results that the tools return. The tools run in a host; the names below import them on first use.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "LocateCallback": "mixdown.tensorflow.numerics.callback",
    "calibration": "mixdown.tensorflow.numerics.calibrate",
    "compare": "mixdown.tensorflow.numerics.compare",
    "locate": "mixdown.tensorflow.numerics.locate",
    "locating": "mixdown.tensorflow.numerics.locate",
    "statistics": "mixdown.tensorflow.numerics.statistics",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605 - the table above holds the names


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a class or a function
    """Import the module that defines a name, on first use of the name."""
    if name not in _HOMES:
        raise AttributeError(f"module 'mixdown.numerics' has no attribute {name!r}; it has {', '.join(__all__)}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
