"""Progress: silent while it is quick, a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import io
from threading import Event

import pytest

from mixdown.cli import progress
from mixdown.cli.progress import Progress


class Recorder(io.StringIO):
    """A file that tells when it was written to."""

    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self.terminal, self.written = terminal, Event()

    def isatty(self) -> bool:
        return self.terminal

    def write(self, text: str) -> int:
        self.written.set()
        return super().write(text)


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.01)


def test_what_is_quick_shows_nothing() -> None:
    file = Recorder(terminal=False)
    with Progress(2, file=file) as steps:
        steps.step("one")
        steps.step("two")
    assert file.getvalue() == ""
    assert steps._timer.finished.is_set()  # and will not show anything later


@pytest.mark.usefixtures("hurry")
def test_what_takes_long_shows_the_step_it_is_in_and_those_that_follow() -> None:
    file = Recorder(terminal=False)
    with Progress(2, file=file) as steps:
        steps.step("one")
        assert file.written.wait(20)
        steps.step("two")
    assert file.getvalue() == "mixdown: [1/2] one ...\nmixdown: [2/2] two ...\n"


@pytest.mark.usefixtures("hurry")
def test_a_terminal_gets_a_bar_that_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    monkeypatch.setenv("TERM", "xterm-256color")
    file = Recorder(terminal=True)
    with Progress(2, file=file) as steps:
        steps.step("reading")
        assert file.written.wait(20)
        steps.step("planning")
    assert "planning" in file.getvalue()
    assert file.getvalue().endswith("\x1b[2K")  # the last line is wiped


@pytest.mark.usefixtures("hurry")
def test_quiet_is_quiet() -> None:
    file = Recorder(terminal=False)
    with Progress(1, quiet=True, file=file) as steps:
        steps.step("one")
        assert not file.written.wait(0.1)


@pytest.mark.usefixtures("hurry")
def test_a_terminal_without_rich_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "find_spec", lambda _: None)
    file = Recorder(terminal=True)
    with Progress(1, file=file) as steps:
        steps.step("one")
        assert file.written.wait(20)
    assert file.getvalue() == "mixdown: [1/1] one ...\n"
