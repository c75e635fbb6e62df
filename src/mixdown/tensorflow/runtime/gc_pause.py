"""Python's cycle collector, held back while many small objects are made that form no cycles."""

from __future__ import annotations

import gc
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def collector_paused() -> Iterator[None]:
    """No cycle collection inside: with TensorFlow loaded each one costs more than planning a large graph."""
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


_pausing: set[object] = set()  # the blocks that stopped the collector


def _restart() -> None:
    """In a forked process: the threads that would start the collector again are not there."""
    if _pausing:
        _pausing.clear()
        gc.enable()


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(after_in_child=_restart)
