"""What NumPy counts: the reference for every number in a tally."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from mixdown.rules.formats import BIAS, EXPONENTS

if TYPE_CHECKING:
    from mixdown.numerics.tally import Tally

LOW = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(tf.bfloat16.as_numpy_dtype)}
SMALLEST_NORMAL = {"float16": 2.0**-14, "bfloat16": 2.0**-126}


def bits_of(value: float) -> int:
    """The bits of the magnitude of a float32, read as an integer."""
    return int(np.abs(np.float32(value)).view(np.uint32))


@np.errstate(over="ignore", invalid="ignore")  # overflow and NaN are what is counted
def counted(values: Any) -> dict[str, Any]:
    """Everything a tally tells, by casting and comparing."""
    exact = np.asarray(values, np.float64).ravel()
    size = np.abs(exact)
    finite = np.isfinite(exact)
    out = {
        "elements": exact.size,
        "zeros": int((exact == 0).sum()),
        "infs": int(np.isinf(exact).sum()),
        "nans": int(np.isnan(exact).sum()),
        "max_abs": float(size[finite].max(initial=0.0)),
        "min_nonzero": float(size[finite & (size > 0)].min()) if (finite & (size > 0)).any() else None,
        "histogram": _histogram(size[finite & (size >= 2.0**-126)]),  # smaller ones share a place with zeros
    }
    for name, dtype in LOW.items():
        cast = np.asarray(values, np.float32).ravel().astype(dtype).astype(np.float64)
        out[f"{name} flushed"] = int(((cast == 0) & (exact != 0)).sum())
        out[f"{name} subnormal"] = int(((cast != 0) & (np.abs(cast) < SMALLEST_NORMAL[name])).sum())
        out[f"{name} overflowed"] = int((np.isinf(cast) & finite).sum())
    return out


def _histogram(size: Any) -> dict[int, int]:
    rounded = size.astype(np.float16).astype(np.float64)
    held = (rounded != 0) & np.isfinite(rounded)
    exponents, counts = np.unique(np.frexp(np.where(held, rounded, size))[1] - 1, return_counts=True)
    return dict(zip(exponents.tolist(), counts.tolist(), strict=True))


def told(tally: Tally) -> dict[str, Any]:
    """The same from a tally."""
    assert len(tally.histogram) == EXPONENTS
    names = ("elements", "zeros", "infs", "nans", "max_abs", "min_nonzero")
    out = {name: getattr(tally, name) for name in names}
    out["histogram"] = {at - BIAS: n for at, n in enumerate(tally.histogram) if n and 0 < at < EXPONENTS - 1}
    for name in LOW:
        losses = tally.losses(name)
        out |= {f"{name} {loss}": count for loss, count in vars(losses).items()}
    return out
