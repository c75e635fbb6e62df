"""What the page carries: all of the report, small and harmless, without a browser."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.reports.samples import many, sample

from mixdown.reports import Report
from mixdown.reports.model import GraphReport, OpRow, SiteRow
from mixdown.reports.rendering.page import SCRIPTS, _static, page

DANGEROUS = ("</script>", "<script", "<!--", "-->", "<", "&lt;", "\\u003c", "$data", "`", "\u2028", "\ud800", "x")
BLOCK = re.compile(r'<script id="report-data" type="application/json">(.*?)</script>', re.DOTALL)


def carried(report: Report) -> Any:
    found = BLOCK.search(page(report))
    assert found
    return json.loads(found[1])


def unpacked(graph: dict[str, Any]) -> tuple[OpRow, ...]:
    """The ops as they were, read in the plainest way."""
    strings, verdicts = graph["strings"], graph["verdicts"]

    def site(verdict: int, *because: int) -> SiteRow:
        attribute, dtype, category, stage, reason = (strings[number] for number in verdicts[verdict])
        return SiteRow(attribute, dtype, category, stage, reason, because[::2], because[1::2])

    return tuple(
        OpRow(
            name,
            strings[kind],
            strings[function],
            tuple(site(*each) for each in sites),
            tuple(inputs),
            strings[source],
            *work,
        )
        for name, kind, function, source, inputs, sites, *work in graph["ops"]
    )


def test_page_carries_every_op_as_it_was() -> None:
    report = sample()
    assert [unpacked(graph) for graph in carried(report)["graphs"]] == [graph.ops for graph in report.graphs]


@given(st.text() | st.lists(st.sampled_from(DANGEROUS)).map("".join))
def test_any_text_survives_and_none_ends_the_data(text: str) -> None:
    site = SiteRow(text, "float16", text, text, text)
    graph = GraphReport(text, text, "float16", rewritten=True, reason=text, ops=(OpRow(text, text, text, (site,)),))
    report = Report(text, {text: text}, (graph,), (), (text,))
    html = page(report)
    assert carried(report)["title"] == text
    assert unpacked(carried(report)["graphs"][0]) == graph.ops
    assert html.count("<script") == page(Report("")).count("<script")
    html.encode()


def test_a_repeated_string_is_carried_once() -> None:
    html = page(many(1000))
    assert html.count("MatMul is on the allow list") == 1


def test_page_names_no_address_but_that_of_the_svg_namespace() -> None:
    assert set(re.findall(r"https?://[^\s'\"]+", page(sample()))) == {"http://www.w3.org/2000/svg"}


def test_no_script_makes_markup_from_text() -> None:
    sinks = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function")
    assert [(name, sink) for name in SCRIPTS for sink in sinks if sink in _static(name)] == []
