"""A report into a file, by its ending."""

import json
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from tests.reports.samples import many, sample

from mixdown.errors import ReportError
from mixdown.reports import Report
from mixdown.reports.build import python_names
from mixdown.reports.rendering.page import page

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


def test_a_representation_is_one_short_line() -> None:
    line = repr(sample())
    assert line == "<Report 'a training run': graphs 2, 100 % of the matrix arithmetic in 16 bits>"
    assert repr(many(10_000)) == "<Report 'large': graphs 1>"
    assert len(repr(many(10_000).graphs[0])) < 100


def test_a_notebook_gets_the_page_or_if_that_is_large_a_summary() -> None:
    small, large = sample()._repr_html_(), many(20_000)._repr_html_()
    assert unescape(small.partition('srcdoc="')[2].removesuffix('"></iframe>')) == page(sample())
    assert large.startswith("<pre>large\n")
    assert "20000 of 20000 float32 ops run in float16" in large
    assert "report.save('report.html')" in large
    assert len(large) < 10_000


def test_a_report_that_was_saved_before_it_had_numbers_of_work_is_read() -> None:
    data = json.loads(sample().to_json())
    for graph in data["graphs"]:
        del graph["effort"]
        for op in graph["ops"]:
            del op["flops"], op["bytes"]
    old = Report.from_json(json.dumps(data))
    assert old.graphs[0].effort.flops == 0
    assert [op.name for op in old.graphs[0].ops] == [op.name for op in sample().graphs[0].ops]
    assert "float32 ops run in float16" in str(replace(old, graphs=old.graphs[:1]))


def test_functions_of_one_name_stay_apart() -> None:
    assert python_names(["", "__inference_f_1", "__inference_f_2", "__inference_f_1"]) == {
        "": "",
        "__inference_f_1": "f",
        "__inference_f_2": "f#2",
    }
