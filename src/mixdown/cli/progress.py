"""How far a command is, on stderr: nothing for the first two seconds, then a bar on a terminal, and lines elsewhere."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from threading import Lock, Timer
from typing import TYPE_CHECKING, Protocol, Self, TextIO

from mixdown.untrusted.escaped import escaped

if TYPE_CHECKING:
    from types import TracebackType

PATIENCE = 2.0
"""Seconds that pass before anything is shown."""


class Bar(Protocol):
    """Something that shows how far it is."""

    def show(self, number: int, total: int, what: str) -> None:
        """Say that this step of so many has begun."""

    def close(self) -> None:
        """Leave the screen as it was."""


class Lines:
    """A line a step."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def show(self, number: int, total: int, what: str) -> None:
        """Write it."""
        self._file.write(f"mixdown: [{number}/{total}] {escaped(what)} ...\n")
        self._file.flush()

    def close(self) -> None:
        """Leave the lines: they are a record."""


class RichBar:
    """A bar of rich's, gone at the end."""

    def __init__(self, file: TextIO) -> None:
        from rich.console import Console  # noqa: PLC0415 - rich is optional
        from rich.markup import escape  # noqa: PLC0415 - rich is optional
        from rich.progress import Progress as Rich  # noqa: PLC0415 - rich is optional

        self._escape = escape
        self._rich = Rich(console=Console(file=file), transient=True)
        self._task = self._rich.add_task("")
        self._rich.start()

    def show(self, number: int, total: int, what: str) -> None:
        """Move the bar."""
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
        self._bar: Bar | None = None
        self._lock = Lock()
        self._timer = Timer(PATIENCE, self._begin)
        self._timer.daemon = True

    def step(self, what: str) -> None:
        """Say what begins now."""
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
