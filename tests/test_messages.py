"""The log: which lines go where, and how to have more or fewer of them."""

from __future__ import annotations

import io
import logging
from contextlib import contextmanager, redirect_stderr
from typing import TYPE_CHECKING

import pytest

from mixdown import messages
from mixdown.errors import MixdownWarning

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def fresh() -> Iterator[io.StringIO]:
    """As if nobody had set up logging yet (pytest has, for every test): what goes to stderr."""
    loggers = [logging.getLogger(), logging.getLogger("mixdown")]
    before = [(logger.handlers, logger.level) for logger in loggers]
    for logger in loggers:
        logger.handlers = []
    loggers[1].setLevel(logging.NOTSET)
    with redirect_stderr(io.StringIO()) as written:
        yield written
    for logger, (handlers, level) in zip(loggers, before, strict=True):
        logger.handlers = handlers
        logger.setLevel(level)


def speak() -> None:
    """What a fresh process would log."""
    logger = messages.logger.__wrapped__()
    for level in (logging.DEBUG, logging.INFO, logging.ERROR):
        logger.log(level, logging.getLevelName(level))


SHOWN = {
    "": ["INFO", "ERROR"],
    "off": [],
    "error": ["ERROR"],
    "info": ["INFO", "ERROR"],
    "DEBUG": ["DEBUG", "INFO", "ERROR"],
}


@pytest.mark.parametrize("asked", SHOWN)
def test_the_environment_says_how_much_is_shown(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIXDOWN_LOG", asked)
    with fresh() as stderr:
        speak()
    assert stderr.getvalue().splitlines() == [f"mixdown: {line}" for line in SHOWN[asked]]


def test_a_program_that_has_set_up_logging_decides_itself() -> None:
    own = io.StringIO()
    with fresh() as stderr:
        logging.basicConfig(stream=own, level=logging.WARNING, format="%(name)s %(message)s")
        speak()
    assert (stderr.getvalue(), own.getvalue()) == ("", "mixdown ERROR\n")


def test_a_program_that_sets_up_logging_later_does_not_get_lines_twice() -> None:
    own = io.StringIO()
    with fresh() as stderr:
        speak()
        logging.basicConfig(stream=own, format="%(message)s")
        logging.getLogger("mixdown").info("later")
    assert "later" not in stderr.getvalue()
    assert own.getvalue() == "later\n"


def test_a_level_that_is_not_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIXDOWN_LOG", "loud")
    message = "MIXDOWN_LOG=loud is not understood: choose from off, error, warning, info, debug."
    with fresh() as stderr, pytest.warns(MixdownWarning, match=message):
        speak()
    assert stderr.getvalue().splitlines() == ["mixdown: INFO", "mixdown: ERROR"]


def test_a_warning_points_at_the_innermost_line_of_the_users_own_code() -> None:
    frames: dict[str, object] = {"__name__": "mixdown.inner", "warn": messages.warn}
    exec("def inner():\n    warn('Mind the gap.')", frames)  # noqa: S102 - a frame of the library
    outer: dict[str, object] = {"__name__": "tensorflow.python.outer", "inner": frames["inner"]}
    exec("def outer():\n    inner()", outer)  # noqa: S102 - a frame of another library
    with pytest.warns(MixdownWarning, match="Mind the gap") as given:
        outer["outer"]()  # type: ignore[operator]
    assert given[0].filename == __file__
    assert "Mind the gap." in messages.given()


def test_a_warning_as_a_block_is_entered_points_at_the_block() -> None:
    frames: dict[str, object] = {"__name__": "mixdown.inner", "warn": messages.warn, "contextmanager": contextmanager}
    exec("@contextmanager\ndef block():\n    warn('Mind the step.')\n    yield", frames)  # noqa: S102 - as above
    with pytest.warns(MixdownWarning, match="Mind the step") as given, frames["block"]():  # type: ignore[operator]
        pass
    assert given[0].filename == __file__
