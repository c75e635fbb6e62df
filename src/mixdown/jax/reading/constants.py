"""Constants that a 16-bit dtype cannot hold: the numbers that values are full of, and what is wrong with them."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

LARGEST = 1 << 16
"""Constants of more numbers than this are not looked at: weights, not settings."""


class Range(NamedTuple):
    """The magnitudes of a constant, zeros and infinities left out."""

    smallest: float
    largest: float


def range_of(value: Any) -> Range | None:
    """The range of a constant; None if it is not known, too large to look at, or zero and infinite only."""
    if isinstance(value, jax.core.Tracer) or np.size(value) > LARGEST:
        return None
    magnitudes = np.abs(np.asarray(value, np.float64)).ravel()
    found = magnitudes[np.isfinite(magnitudes) & (magnitudes > 0)]
    return Range(float(found.min()), float(found.max())) if found.size else None


def trouble(found: Range | None, low: str) -> str | None:
    """Why the reader of a constant must stay float32, None if it need not."""
    if found is None:
        return None
    if not np.isfinite(float(np.asarray(found.largest, np.float32).astype(jnp.dtype(low)))):
        return f"its constant {found.largest:g} is not finite in {low}"
    if found.smallest < float(jnp.finfo(low).tiny):
        return f"its constant {found.smallest:g} is smaller than what {low} holds"
    return None
