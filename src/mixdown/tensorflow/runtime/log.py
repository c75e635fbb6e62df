"""The `mixdown` logger: one INFO line for every function and session that is rewritten, DEBUG for more.

A program that has set up logging decides what becomes of them. In one that has not, they go to stderr, unless the
environment says otherwise: MIXDOWN_LOG=off, error, warning, info (the default) or debug.
"""

from __future__ import annotations

import logging
import os
from functools import cache
from typing import TYPE_CHECKING

from mixdown.core import Paint
from mixdown.tensorflow.runtime.messages import warn

if TYPE_CHECKING:
    from mixdown.core import Plan

VARIABLE = "MIXDOWN_LOG"
LEVELS = {
    "off": logging.CRITICAL + 1,
    "error": logging.ERROR,
    "warning": logging.WARNING,
    "info": logging.INFO,
    "debug": logging.DEBUG,
}


@cache
def logger() -> logging.Logger:
    """The logger, set up when first needed: only then is it known whether the program has set up its own."""
    found = logging.getLogger("mixdown")
    asked = os.environ.get(VARIABLE, "")
    if asked and asked.lower() not in LEVELS:
        warn(f"{VARIABLE}={asked} is not understood: choose from {', '.join(LEVELS)}.")
    if asked.lower() in LEVELS:
        found.setLevel(LEVELS[asked.lower()])
    if not found.hasHandlers():
        _set_up(found)
    return found


def told(plan: Plan) -> str:
    """A plan in one line."""
    sites, paints = plan.graph.sites, plan.paints
    low = {site.op for site, paint in zip(sites, paints, strict=True) if paint is Paint.LOW}
    casts = sum(
        any(paints[site] is not paints[tensor.site] for site in tensor.consumers) for tensor in plan.graph.tensors
    )
    return f"{len(low)} of {len(plan.graph.ops)} float32 ops in {plan.policy.low}, {casts} casts"


def _set_up(found: logging.Logger) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("mixdown: %(message)s"))
    handler.addFilter(lambda _: not logging.getLogger().handlers)  # the program may yet set up its own
    found.addHandler(handler)
    if found.level == logging.NOTSET:
        found.setLevel(logging.INFO)
