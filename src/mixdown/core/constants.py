"""What the numbers of a constant are like, which decides whether 16 bits can hold them: `described`.

Hosts call it while they read; it needs NumPy, as they do, and nothing else in the core imports it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mixdown.core.graph import Constant


def described(values: np.ndarray[Any, np.dtype[np.float32]]) -> Constant:
    """What some numbers are like."""
    finite = values[np.isfinite(values)]
    nonzero = finite[finite != 0]
    if not nonzero.size:
        return Constant(0.0, 0.0, whole=True, size=values.size)
    size = np.abs(nonzero)
    whole = bool((np.trunc(nonzero) == nonzero).all())
    return Constant(float(nonzero[size.argmin()]), float(nonzero[size.argmax()]), whole, values.size)
