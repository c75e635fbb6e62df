"""Shows on stderr how far a command is: nothing for two seconds, then a bar on a terminal, and lines elsewhere."""

import sys
from importlib.util import find_spec
from threading import Lock, Timer
from typing import Any, Self, TextIO

from mixdown.untrusted.escaped import escaped

PATIENCE = 2.0
"""Seconds before anything is shown."""


class Progress:
    """The steps of a command, as a `with` block; shown in a file, by default stderr, unless it is quiet."""

    def __init__(self, total: int, *, quiet: bool = False, file: TextIO | None = None) -> None:
        self._total, self._quiet, self._file = total, quiet, file or sys.stderr
        self._number, self._what = 0, ""
        self._begun = False
        self._bar: Any = None  # of rich, on a terminal
        self._lock = Lock()
        self._timer = Timer(PATIENCE, self._begin)
        self._timer.daemon = True

    def step(self, what: str) -> None:
        """Begin the next step, and show its description."""
        with self._lock:
            self._number, self._what = self._number + 1, what
            self._show()

    def __enter__(self) -> Self:
        if not self._quiet:
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._lock:
            if self._bar is not None:
                self._bar.stop()

    def _begin(self) -> None:
        with self._lock:
            self._begun = True
            if self._file.isatty() and find_spec("rich"):
                self._bar = _rich_bar(self._file)
            self._show()

    def _show(self) -> None:
        if not self._begun or not self._number:
            return
        what = escaped(self._what)
        if self._bar is None:
            self._file.write(f"mixdown: [{self._number}/{self._total}] {what} ...\n")
            self._file.flush()
        else:
            from rich.markup import escape  # noqa: PLC0415 - rich is optional

            self._bar.update(0, completed=self._number - 1, total=self._total, description=escape(what))


def _rich_bar(file: TextIO) -> Any:  # noqa: ANN401 - rich is optional
    """A progress bar of rich with one task, which is removed when it stops."""
    from rich.console import Console  # noqa: PLC0415 - rich is optional
    from rich.progress import Progress as Rich  # noqa: PLC0415 - rich is optional

    bar = Rich(console=Console(file=file), transient=True)
    bar.add_task("")
    bar.start()
    return bar
