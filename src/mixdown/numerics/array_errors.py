"""How far arrays of two runs are from each other: `errors_between`. It needs NumPy, which every framework brings."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixdown.numerics.comparison import BEYOND, Errors

Numbers = NDArray[np.float64]

FLOOR = 1e-6
"""Numbers below this part of the largest one count as that large when an error is taken relative to them."""


def errors_between(full: Sequence[Any], mixed: Sequence[Any]) -> Errors:
    """The errors of all arrays of a sequence together; `BEYOND` if shapes differ, or what is not finite does."""
    if [np.shape(value) for value in full] != [np.shape(value) for value in mixed]:
        return BEYOND
    if all(np.asarray(one).tobytes() == np.asarray(other).tobytes() for one, other in zip(full, mixed, strict=True)):
        return Errors()
    expected, got = (np.concatenate([np.ravel(v).astype(np.float64) for v in part]) for part in (full, mixed))
    both = np.isfinite(expected) & np.isfinite(got)
    if not np.array_equal(expected[~both], got[~both], equal_nan=True):
        return BEYOND
    return _finite_errors(expected[both], got[both])


def _finite_errors(expected: Numbers, got: Numbers) -> Errors:
    difference = np.abs(got - expected)
    size = np.abs(expected)
    relative = difference / np.maximum(size, max(size.max() * FLOOR, np.finfo(np.float64).tiny))
    lengths = [float(np.linalg.norm(each)) for each in (expected, got, difference)]
    return Errors(
        float(difference.max()),
        float(difference.mean()),
        float(relative.max()),
        float(relative.mean()),
        lengths[2] / lengths[0] if lengths[0] else float("inf"),
        float(expected @ got) / (lengths[0] * lengths[1]) if lengths[0] * lengths[1] else 0.0,
    )
