"""How Ctrl-C ends a process at once, whatever it and its children are computing: `ending_at_once`."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTED = 130
"""The exit code after Ctrl-C."""

SHOW_CURSOR = "\x1b[?25h"
"""What makes a terminal show its cursor again, which a progress bar has hidden."""

children: set[subprocess.Popen[str]] = set()
"""Processes that end with this one."""


@contextmanager
def ending_at_once() -> Iterator[None]:
    """Inside the block, Ctrl-C ends this process and its children at once: native code lets no exception through."""

    def leave(*_: object) -> None:
        for child in children:
            child.kill()
        sys.stdout.flush()
        if sys.stderr.isatty():
            sys.stderr.write(SHOW_CURSOR)
            sys.stderr.flush()
        os._exit(INTERRUPTED)

    before = signal.signal(signal.SIGINT, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
