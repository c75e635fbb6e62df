"""What the workers of a data loader do. They need NumPy only: importing this must not import TensorFlow."""

from __future__ import annotations

import gc
import os
import sys
from typing import Any

import numpy as np


def batch(number: int) -> tuple[int, Any, Any]:
    """The examples of a step, and the process that made them."""
    x = np.random.default_rng(number).normal(size=(8, 4)).astype("float32")
    gc.collect()  # a forked process has the parent's objects: what is dead among them goes here
    return os.getpid(), x, x.sum(axis=1, keepdims=True)


def batch_with_mixdown(number: int) -> tuple[int, Any, Any]:
    """The same by a worker that imports mixdown, as one does that shares a module with the training."""
    import mixdown  # noqa: PLC0415 - in the worker

    assert mixdown.Policy(devices="all").with_deny("Exp").admits("CPU")
    assert "tensorflow" not in sys.modules, "a worker of NumPy must not pay for TensorFlow"
    return batch(number)
