"""Names that hold escape sequences, markup or line breaks: shown as text, whoever shows them, never obeyed."""

from __future__ import annotations

import io
import logging
import warnings
from typing import TYPE_CHECKING

import pytest
import tensorflow as tf
from tests.reliability.hostile_graphs import UGLY, named, plain
from tests.reliability.test_hostile_json import ONE
from tests.reports.rendering.browser import headless, needs_chromium

import mixdown
from mixdown import cli, messages
from mixdown.cli.progress import Progress
from mixdown.numerics.calibrated import Ruling, Verdict
from mixdown.numerics.comparison import Compared, Comparison, Errors
from mixdown.numerics.location import Location, Range
from mixdown.numerics.range_statistics import Statistics
from mixdown.numerics.tally import MeasuredTensor
from mixdown.reports.rendering.page import page
from mixdown.scaling.step_counters import description
from mixdown.tensorflow.runtime import private

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.reliability.conftest import Tally

STATISTICS = Statistics(UGLY, 1, 1.0, (MeasuredTensor(UGLY, UGLY, 0, UGLY, ONE),))
TEXTS: dict[str, Callable[[], str]] = {
    "a location": lambda: str(Location(UGLY, UGLY, UGLY, "float16", (Range(UGLY, UGLY, (1,), 0.0, 1.0),), source=UGLY)),
    "statistics": lambda: str(STATISTICS),
    "a comparison": lambda: str(Comparison((Compared(UGLY, UGLY, 0, UGLY, UGLY, Errors(1.0)),), ())),
    "a ruling": lambda: str(Ruling(UGLY, UGLY, Verdict.KEEP, UGLY)),
    "skipped steps": lambda: description(50, [(UGLY, "Inf")]),
    "a report": lambda: str(mixdown.explain(named(UGLY))),
    "a chain of causes": lambda: mixdown.explain(named(UGLY)).why(UGLY),
    "a line of progress": lambda: written(io.StringIO()),
}


def written(out: io.StringIO) -> str:
    with Progress(3, quiet=True, file=out) as progress:
        progress.step(f"{UGLY} [/] [bold]")
        progress._begin()
    return out.getvalue()


@pytest.mark.parametrize("case", TEXTS)
def test_text_for_a_terminal_holds_nothing_that_it_would_obey(case: str, tally: Tally) -> None:
    text = TEXTS[case]()
    assert all(char.isprintable() or char == "\n" for char in text)
    assert "\\x1b[2J" in text or case in {"statistics", "a comparison"}  # these show the ends of names
    tally("hostile inputs")


class Terminal(io.StringIO):
    """A terminal that keeps what it is told."""

    def isatty(self) -> bool:
        return True


def test_a_bar_takes_no_markup_from_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    shown = written(Terminal())
    assert "\x1b[2J" not in shown
    assert "[/] [bold]" in shown


def test_what_was_converted_is_told_harmlessly(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = tmp_path / "source.pb", tmp_path / UGLY.replace("\0", "").replace("/", "")
    source.write_bytes(plain().SerializeToString())
    assert cli.main(["convert", str(source), str(target)]) == 0
    assert target.is_file()
    said = capsys.readouterr().out.splitlines()
    assert all(map(str.isprintable, said))
    assert len(said) == 3


def test_a_warning_is_one_harmless_line() -> None:
    with pytest.warns(mixdown.MixdownWarning) as warned:
        messages.warn(f"Function {UGLY} runs in float32.")
    assert str(warned[0].message).isprintable()
    assert messages.given()[-1].isprintable()


def test_a_log_line_is_harmless(caplog: pytest.LogCaptureFixture) -> None:
    function = tf.function(tf.matmul).get_concrete_function(*[tf.TensorSpec((2, 2), tf.float32)] * 2)
    ugly = type(function.function_def)()
    ugly.CopyFrom(function.function_def)
    ugly.signature.name = UGLY.replace("\x00", "")
    context = private.context()
    context.add_function_def(ugly)
    with caplog.at_level(logging.INFO, "mixdown"), mixdown.rewriting(mixdown.Policy(devices="all")):
        context.call_function(ugly.signature.name.encode(), [tf.ones((2, 2))] * 2, 1)
    context.remove_function(ugly.signature.name)
    (line,) = [record.getMessage() for record in caplog.records if "gnp.exe" in record.getMessage()]
    assert line.isprintable()


def test_a_message_of_the_command_line_is_one_harmless_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", f"nowhere{UGLY.replace(chr(0), '')}.pb"]) == 2
    said = capsys.readouterr().err
    assert said.rstrip("\n").isprintable()
    assert said.startswith("mixdown: There is no model at 'nowhere")


def test_the_page_of_statistics_holds_names_as_text() -> None:
    text = STATISTICS.to_html()
    assert "<script" not in text
    assert text.count("&lt;script&gt;") >= 2


@needs_chromium
def test_the_page_of_a_report_shows_ugly_and_deep_names_as_text() -> None:
    report = mixdown.explain(named("/".join("s" * 50_000) + UGLY))
    with headless() as browser:
        browser.open(page(report))
        assert browser.script("return document.querySelectorAll('.row').length") > 0
        assert browser.script("return document.querySelectorAll('script').length") == 2
        assert browser.complaints() == []


def test_no_warning_is_given_while_names_are_shown() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for make in TEXTS.values():
            make()
