"""A small v1 training problem, and the same problem in NumPy, for the tests of the v1 optimizer."""

from typing import Any

import numpy as np

RATE, MOMENTUM = 0.05, 0.9
W0, B0 = np.array([1.0, -2.0], np.float32), np.array([0.5], np.float32)


def gradients(w: Any, b: Any, x: Any) -> tuple[Any, Any]:
    """The gradients of x * sum(w**2) / 2 + sum(b) with respect to w and b."""
    return np.float32(x) * w, np.ones_like(b)


def reference(xs: Any, replicas: int = 1) -> dict[str, Any]:
    """Momentum SGD in float32 that skips every step whose x is not finite."""
    w, b, mw, mb, applied = W0.copy(), B0.copy(), np.zeros_like(W0), np.zeros_like(B0), 0
    for x in xs:
        if not np.isfinite(x):
            continue
        gw, gb = (np.float32(replicas) * each for each in gradients(w, b, x))
        mw, mb = np.float32(MOMENTUM) * mw + gw, np.float32(MOMENTUM) * mb + gb
        w, b, applied = w - np.float32(RATE) * mw, b - np.float32(RATE) * mb, applied + 1
    return {"w": w.tolist(), "b": b.tolist(), "mw": mw.tolist(), "mb": mb.tolist(), "global_step": applied}
