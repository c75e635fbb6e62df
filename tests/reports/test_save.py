"""A report into a file, by its ending."""

from pathlib import Path

import pytest

from mixdown.errors import ReportError
from mixdown.reports import Report

REPORT = Report("A <b>title</b>", {"mixdown": "1"}, warnings=("careful",))


def test_json_comes_back_equal(tmp_path: Path) -> None:
    assert Report.from_json(REPORT.save(tmp_path / "r.json").read_text("utf-8")) == REPORT


def test_page_is_one_html_file(tmp_path: Path) -> None:
    text = REPORT.save(str(tmp_path / "r.html")).read_text("utf-8")
    assert text.startswith("<!")
    assert "<b>title</b>" not in text


def test_other_endings_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"saved as .html, .json or .txt, not as 'r.pdf'"):
        REPORT.save(tmp_path / "r.pdf")
    assert list(tmp_path.iterdir()) == []


def test_text_is_what_is_printed(tmp_path: Path) -> None:
    assert REPORT.save(tmp_path / "r.txt").read_text("utf-8") == f"{REPORT}\n"


BROKEN = {
    "not JSON": ("{", "it is not JSON"),
    "another thing": ("[]", "its schema is None"),
    "another version": ('{"schema": "mixdown-report/0"}', "its schema is 'mixdown-report/0'"),
    "an unknown field": (
        '{"schema": "mixdown-report/1", "title": "", "colour": 1}',
        "the report has no colour; it has title",
    ),
    "a missing field": ('{"schema": "mixdown-report/1"}', "the report is incomplete"),
    "no list": ('{"schema": "mixdown-report/1", "title": "", "graphs": 7}', "graphs of the report should be a list"),
    "a broken part": ('{"schema": "mixdown-report/1", "title": "", "graphs": [1]}', r"graphs\[0\] of the report"),
    "deep nesting": ("[" * 100_000, "it is not JSON"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_report_is_refused_with_the_place(case: str) -> None:
    text, message = BROKEN[case]
    with pytest.raises(ReportError, match=message):
        Report.from_json(text)
