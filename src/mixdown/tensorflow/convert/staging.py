"""Files that appear all at once: built in a hidden folder beside their place, then moved there in one step.

Start with `staged`. A process that is killed leaves at most such a hidden folder behind; the next one that writes to
the same place removes it.
"""

import ctypes
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path
from tempfile import mkdtemp

from mixdown.untrusted.model_files import refuse_taken

SUFFIX = ".mixdown-partial"
"""How the names of the hidden folders end."""


@contextmanager
def staged(target: Path, *, overwrite: bool) -> Iterator[Path]:
    """A folder in which to make `target` under its own name; when the block ends well, it takes its place.

    Whatever else is made in the folder is moved beside the target first.
    """
    refuse_taken(target, overwrite=overwrite)
    target.parent.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(target)
    folder, lock = _locked_folder(target)
    try:
        yield folder
        _publish(folder, target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _prefix(target: Path) -> str:
    return f".{target.name}."


def _locked_folder(target: Path) -> tuple[Path, int]:
    """A new folder, locked for as long as this process lives: a leftover of another process is not."""
    while True:
        folder = Path(mkdtemp(SUFFIX, _prefix(target), target.parent))
        lock = _lock(folder)
        if lock is not None and folder.exists():
            return folder, lock


def _lock(folder: Path) -> int | None:
    """Lock a folder; None if another process holds it, or has just removed it."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _remove_leftovers(target: Path) -> None:
    for folder in target.parent.glob(f"{escape(_prefix(target))}*{SUFFIX}"):
        lock = _lock(folder)
        if lock is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


def _publish(folder: Path, target: Path) -> None:
    for path in sorted(folder.rglob("*")):
        _flush(path)
    for path in sorted(folder.iterdir()):
        if path.name != target.name:
            path.replace(target.parent / path.name)
    made = folder / target.name
    if target.exists() and (target.is_dir() or made.is_dir()):
        _exchange(made, target, folder)
    else:
        made.replace(target)
    _flush(target.parent)


def _flush(path: Path) -> None:
    """Make sure that a file, or the list of names in a folder, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _exchange(made: Path, target: Path, folder: Path) -> None:
    """Let two paths change places. Only Linux can do it in one step; elsewhere there is a moment without a target."""
    here, both_change_places = -100, 2  # AT_FDCWD and RENAME_EXCHANGE
    swap = getattr(ctypes.CDLL(None), "renameat2", None)
    if swap is None or swap(here, os.fsencode(made), here, os.fsencode(target), both_change_places) != 0:
        target.rename(folder / f"{target.name}.replaced")
        made.rename(target)
