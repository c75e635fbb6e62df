"""Python's cycle collector, paused while many small objects are made that form no cycles: `collector_paused`."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause cycle collection: with a framework loaded, one collection takes longer than planning a large graph."""
    running, block = gc.isenabled(), object()
    try:
        if running:
            _pausing.add(block)
            gc.disable()
        yield
    finally:
        if running:
            gc.enable()
            _pausing.discard(block)
            _age_all()


def _age_all() -> None:
    """Count all objects as old ones: a plan lives long, and looking for cycles in it at once takes a while."""
    if not _frozen and (count := gc.get_freeze_count()):
        _frozen.append(count)
    if _frozen:
        return
    try:
        gc.freeze()
    finally:
        gc.unfreeze()


_pausing: set[object] = set()  # the blocks that stopped the collector
_frozen: list[int] = []  # how many objects somebody else keeps from it, counted once: that takes the longer the more


def _restart() -> None:
    """Restart the collector in a forked process, which lacks the threads that would do so."""
    if _pausing:
        _pausing.clear()
        gc.enable()


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(after_in_child=_restart)
