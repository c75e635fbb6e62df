"""How a command loads TensorFlow: without the lines that it writes when it starts, and such that Ctrl-C ends at once.

Most of those lines are written by native code before any log level holds. Whoever sets TF_CPP_MIN_LOG_LEVEL to 0 or 1
gets them.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile

from mixdown.cli.interrupt import ending_at_once

VARIABLE = "TF_CPP_MIN_LOG_LEVEL"
STDERR = 2


@contextmanager
def quiet_start() -> Iterator[None]:
    """Inside the block, which loads TensorFlow, what native code writes to stderr is dropped, unless it fails."""
    if os.environ.get(VARIABLE) in ("0", "1"):
        with ending_at_once():
            yield
        return
    os.environ.setdefault(VARIABLE, "2")
    with ending_at_once(), TemporaryFile() as noise, own_stderr():
        kept = os.dup(STDERR)
        os.dup2(noise.fileno(), STDERR)
        try:
            yield
        except BaseException:
            noise.seek(0)
            sys.stderr.write(noise.read().decode(errors="replace"))
            raise
        finally:
            os.dup2(kept, STDERR)
            os.close(kept)


def start_tensorflow() -> None:
    """Load TensorFlow and have it look for devices: it complains of missing drivers then."""
    with quiet_start():
        import tensorflow as tf  # noqa: PLC0415 - most commands can refuse or answer without it

        tf.config.list_physical_devices()


@contextmanager
def own_stderr() -> Iterator[None]:
    """Inside the block, what Python writes to stderr comes through, even where `quiet_start` drops the rest."""
    before = sys.stderr
    try:
        is_shared = before.fileno() == STDERR
    except (AttributeError, OSError, ValueError):  # a test, or a notebook, has put something else there
        is_shared = False
    if not is_shared:
        yield
        return
    before.flush()
    with os.fdopen(os.dup(STDERR), "w", encoding="utf-8", errors="backslashreplace", buffering=1) as own:
        sys.stderr = own
        try:
            yield
        finally:
            sys.stderr = before
