"""Shows on stderr how far a command is: nothing for two seconds, then a bar on a terminal, and lines elsewhere."""

import sys
from importlib.util import find_spec
from threading import Lock, Timer
from types import TracebackType
from typing import Self, TextIO

from mixdown.untrusted.escaped import escaped

PATIENCE = 2.0
"""Seconds before anything is shown."""


class Lines:
    """Shows every step as a line."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def show(self, number: int, total: int, what: str) -> None:
        """Write the line of a step."""
        self._file.write(f"mixdown: [{number}/{total}] {escaped(what)} ...\n")
        self._file.flush()

    def close(self) -> None:
        """Do nothing: the lines stay."""


class RichBar:
    """Shows the steps as a progress bar of rich, which is removed at the end."""

    def __init__(self, file: TextIO) -> None:
        from rich.console import Console  # noqa: PLC0415 - rich is optional
        from rich.markup import escape  # noqa: PLC0415 - rich is optional
        from rich.progress import Progress as Rich  # noqa: PLC0415 - rich is optional

        self._escape = escape
        self._rich = Rich(console=Console(file=file), transient=True)
        self._task = self._rich.add_task("")
        self._rich.start()

    def show(self, number: int, total: int, what: str) -> None:
        """Move the bar to a step."""
        self._rich.update(self._task, completed=number - 1, total=total, description=self._escape(escaped(what)))

    def close(self) -> None:
        """Remove the bar."""
        self._rich.stop()


class Progress:
    """The steps of a command, as a `with` block.

    Args:
        total: how many steps there are.
        quiet: show nothing, however long it takes.
        file: where to show it, stderr by default.
    """

    def __init__(self, total: int, *, quiet: bool = False, file: TextIO | None = None) -> None:
        self._total, self._quiet, self._file = total, quiet, file or sys.stderr
        self._number, self._what = 0, ""
        self._bar: Lines | RichBar | None = None
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

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._timer.cancel()
        with self._lock:
            if self._bar is not None:
                self._bar.close()

    def _begin(self) -> None:
        with self._lock:
            self._bar = RichBar(self._file) if self._file.isatty() and find_spec("rich") else Lines(self._file)
            self._show()

    def _show(self) -> None:
        if self._bar is not None and self._number:
            self._bar.show(self._number, self._total, self._what)
