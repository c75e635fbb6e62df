"""Every warning given, kept for the report: `warn` gives one, `given` tells them all."""

from __future__ import annotations

import warnings

from mixdown.core import MixdownWarning
from mixdown.untrusted.escaped import harmless

MOST = 100
"""So many are kept: a program that goes on warning must not grow."""

_given: dict[str, None] = {}


def warn(message: str, stacklevel: int = 1) -> None:
    """Warn the caller, or with a higher `stacklevel` the caller's caller, as `warnings.warn` does."""
    message = harmless(message)  # it may name ops and functions, and goes to a terminal
    keep(message)
    warnings.warn(message, MixdownWarning, stacklevel=stacklevel + 1)


def keep(message: str) -> None:
    """Note a warning that is given elsewhere."""
    if len(_given) < MOST:
        _given[message] = None


def given() -> tuple[str, ...]:
    """The warnings so far, each once, in the order in which they were first given."""
    return tuple(_given)
