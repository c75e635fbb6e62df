"""What a constant of a program holds, for the planner: `constant_of`. Numbers that every dtype holds are left out."""

from __future__ import annotations

from math import isinf
from typing import Any

import jax
import numpy as np

from mixdown.core.constants import described
from mixdown.core.graph import Constant

LARGEST = 1 << 16
"""Constants of more numbers than this are not looked at: weights, not settings."""

EXACT = 256
"""Integers up to this are the same in every dtype."""


def constant_of(value: Any) -> Constant | None:
    """What the numbers of a constant are like; None if they are not known, or too many."""
    if isinstance(value, jax.core.Tracer) or np.size(value) > LARGEST:
        return None
    return described(np.asarray(value, np.float32).reshape(-1))


def is_exact(literal: Any) -> bool:
    """Whether a number written into an equation is the same in every dtype: then nothing need be known of it."""
    if literal.aval.size != 1:
        return False
    number = float(literal.val if not literal.aval.shape else np.asarray(literal.val).reshape(-1)[0])
    return isinf(number) or (number.is_integer() and abs(number) <= EXACT)
