"""What mixdown says while a program runs: warnings (`warn`), kept for the report (`given`), and log lines (`logger`).

A program that has set up logging decides what becomes of the log lines. In one that has not, they go to stderr, unless
the environment says otherwise: MIXDOWN_LOG=off, error, warning, info (the default) or debug.
"""

import logging
import os
import sys
import warnings
from functools import cache

from mixdown.errors import MixdownWarning
from mixdown.untrusted.escaped import escaped

MOST = 100
"""So many warnings are kept: a program that goes on warning must not grow."""

LIBRARIES = ("mixdown", "tensorflow", "keras", "tf_keras", "jax", "flax", "equinox", "optax", "contextlib")
"""Packages whose frames are not the user's own code; context managers run in one of Python's."""

VARIABLE = "MIXDOWN_LOG"
LEVELS = {"off": logging.CRITICAL + 1} | {n: getattr(logging, n.upper()) for n in ("error", "warning", "info", "debug")}

_given: dict[str, None] = {}


def warn(message: str, category: type[Warning] = MixdownWarning) -> None:
    """Warn the innermost line of the user's own code, and keep the message for the report."""
    message = escaped(message)  # it may name ops and functions, and goes to a terminal
    keep(message)
    warnings.warn(message, category, stacklevel=_users_level())


def keep(message: str) -> None:
    """Keep a warning for the report without giving it."""
    if len(_given) < MOST:
        _given[message] = None


def given() -> tuple[str, ...]:
    """The warnings so far, each once, in the order in which they were first given."""
    return tuple(_given)


@cache
def logger() -> logging.Logger:
    """The `mixdown` logger, set up on first use: only then is it known whether the program has set up its own."""
    found = logging.getLogger("mixdown")
    asked = os.environ.get(VARIABLE, "")
    if asked and asked.lower() not in LEVELS:
        warn(f"{VARIABLE}={asked} is not understood: choose from {', '.join(LEVELS)}.")
    if asked.lower() in LEVELS:
        found.setLevel(LEVELS[asked.lower()])
    if not found.hasHandlers():
        _set_up(found)
    return found


def _set_up(found: logging.Logger) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("mixdown: %(message)s"))
    handler.addFilter(lambda _: not logging.getLogger().handlers)  # the program may yet set up its own
    found.addHandler(handler)
    if found.level == logging.NOTSET:
        found.setLevel(logging.INFO)


def _users_level() -> int:
    """The `stacklevel` by which `warn` points at the user's code, or at the outermost frame if there is none."""
    level, frame = 1, sys._getframe(1)  # noqa: SLF001 - the documented way to walk a stack
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in LIBRARIES:
        level, frame = level + 1, frame.f_back
    return level
