"""A report in words: what it says, how it looks on a terminal and in a pipe, and that no name in it is obeyed."""

from __future__ import annotations

import io
import sys
from dataclasses import replace

import pytest
from tests.reports.samples import plan, sample, step_graph

from mixdown.core import Policy
from mixdown.reports import Report
from mixdown.reports.model import GraphReport, OpRow, ScalerReport, SiteRow
from mixdown.reports.rendering.blocks import obstacles
from mixdown.reports.rendering.text import show, text

HOSTILE = "\x1b]0;owned\x07\x1b[31m\u202e[bold red]x[/]\r\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("name", [op.name for op in plan().graph.ops])
def test_the_chain_of_a_report_is_that_of_its_plan(name: str) -> None:
    assert Report("r", graphs=(step_graph(),)).why(name) == plan().why(name)


def test_two_sites_of_one_op_are_two_causes() -> None:
    first, second = (SiteRow(name, "float32", "deny", "taint", f"it is {name}") for name in "TU")
    both = SiteRow("T", "float32", "infer", "taint", "of `a.T` and `a.U`", (0, 0), (0, 1))
    ops = (OpRow("a", "Exp", "", (first, second)), OpRow("b", "Tanh", "", (both,)))
    graph = GraphReport("g", "graph", "float16", rewritten=False, reason="", ops=ops)
    assert Report("r", graphs=(graph,)).why("b").splitlines()[1:] == [
        "  a.T (Exp) is float32: it is T",
        "  a.U (Exp) is float32: it is U",
    ]


def test_a_chain_ends_with_the_line_of_the_program() -> None:
    graph = step_graph()
    ops = tuple(replace(op, source="train.py:7, in step") for op in graph.ops)
    chain = Report("r", graphs=(replace(graph, ops=ops),)).why("head/MatMul")
    assert chain.splitlines()[-1] == "  It was made at train.py:7, in step."


def test_an_op_of_several_graphs_is_explained_in_each() -> None:
    graph = step_graph()
    chain = Report("r", graphs=(graph, replace(graph, name="again"))).why("wq")
    assert [line for line in chain.splitlines() if line.startswith("In ")] == ["In train_step:", "In again:"]


def test_casts_that_xla_may_fuse_are_not_said_to_move_bytes() -> None:
    graph = step_graph()
    assert "Per run the casts read and write 6.1 MB" in text(Report("r", graphs=(graph,)))
    compiled = text(Report("r", graphs=(replace(graph, is_compiled=True),)))
    assert "XLA fuses most of the casts; if it fused none, they would read and write 6.1 MB" in compiled
    assert "Per run the casts" not in compiled


UNKNOWN = {
    "Exp": "Did you mean 'encoder/attention/Exp'?",
    "head/MatMull": "Did you mean 'head/MatMul'",
    "encoder": "Did you mean 'encoder/",
    "HEAD/MATMUL": "Did you mean 'head/MatMul'",
    "entirely else": "No op named 'entirely else' has a float32 port in this report.",
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_an_unknown_op_is_refused_with_what_might_be_meant(name: str) -> None:
    with pytest.raises(KeyError) as refused:
        sample().why(name)
    assert UNKNOWN[name] in refused.value.args[0]


def test_totals_by_kind_and_by_layer_add_up_to_the_whole() -> None:
    graph = step_graph()
    for parts in (graph.by_kind(), graph.by_layer()):
        assert sum(each.ops for each in parts.values()) == graph.totals.ops == len(graph.ops)
        assert sum(each.low_ops for each in parts.values()) == graph.totals.low_ops == len(graph.low_ops)
        assert sum(each.casts for each in parts.values()) == graph.totals.casts == len(graph.casts)
        assert sum(each.bytes for each in parts.values()) == graph.totals.bytes
    for op in graph.ops:
        casts = [cast for cast in graph.casts if graph.ops[cast.op].kind == op.kind]
        assert graph.by_kind()[op.kind].casts == len(casts)
    assert graph.by_layer()["encoder/attention"].ops == 3
    assert graph.by_kind()["MatMul"].low_ops == 3
    assert graph.totals.unsized_casts == sum(cast.bytes is None for cast in graph.casts)


def test_one_graph_is_told_in_full() -> None:
    words = text(Report("r", graphs=(step_graph(),)))
    low, ops, casts = len(step_graph().low_ops), len(step_graph().ops), len(step_graph().casts)
    assert f"{low} of {ops} float32 ops run in float16, with {casts} casts" in words
    assert "  encoder/attention  " in words
    assert "encoder/query  output size  1001  1000" in words


def test_the_work_of_a_graph_comes_before_its_ops() -> None:
    graph = step_graph()
    lines = text(Report("r", graphs=(graph,))).splitlines()
    effort = graph.effort
    assert lines[1] == "100 % of the matrix arithmetic runs in float16: 6 MFLOP of 6 MFLOP a run."
    assert lines[2].startswith(f"Bytes moved: {effort.bytes / effort.float32_bytes:.2f} of float32 (")
    assert lines[3].startswith("Predicted for A100 (a guess): float32 4 ms, mixed 2 ms a run")
    assert " float32 ops run in float16, with " in lines[4]


def test_reasons_begin_with_what_a_user_can_change() -> None:
    found = obstacles(step_graph())
    assert [each.changeable for each in found] == sorted((each.changeable for each in found), reverse=True)
    assert {"it follows a denied op (Exp)", "Exp is on the deny list"} <= {
        each.reason for each in found if each.changeable
    }
    assert "Lgamma is on no list" in {each.reason for each in found if not each.changeable}
    assert sum(each.sites for each in found) == sum(
        site.dtype == "float32" for op in step_graph().ops for site in op.sites
    )


def test_a_rule_of_the_user_is_named_among_the_first_reasons() -> None:
    found = obstacles(step_graph(Policy().with_keep(name="head/MatMul")))
    assert any("a rule of the policy" in each.reason and each.changeable for each in found)


def test_several_graphs_are_a_table_with_the_reason_for_what_was_left_alone() -> None:
    words = str(sample())
    assert "2 functions: 1 rewritten, 1 left alone." in words
    assert "left alone: it runs on a TPU" in words
    assert "Warning: The optimizer was wrapped twice." in words
    assert "Note: This is a sample." in words


def test_the_loss_scale_is_told_with_its_skipped_steps() -> None:
    words = str(sample())
    assert "Loss scale of adam: 16384 after 40 steps, of which 3 were skipped." in words
    assert "32768 from step 24, 16384 from step 31." in words
    rows = [line.split(maxsplit=1) for line in words.splitlines() if line.startswith(("  2 ", "  3 ", "  30 "))]
    assert rows == [
        ["2", "dense/kernel (Inf), dense/bias (NaN)"],
        ["3", "dense/kernel (Inf and NaN)"],
        ["30", "not recorded"],
    ]


def test_an_empty_report_says_so() -> None:
    assert str(Report("r")).splitlines() == ["r", "No function and no session was rewritten or looked at."]


def hostile() -> Report:
    site = SiteRow(HOSTILE, "float16", "allow", "seed", HOSTILE)
    graph = GraphReport(
        HOSTILE, "graph", "float16", rewritten=True, reason="", ops=(OpRow(HOSTILE, HOSTILE, "", (site,)),)
    )
    return Report(HOSTILE, {HOSTILE: HOSTILE}, (graph,), (ScalerReport(HOSTILE, 1.0, 1, 0),), (HOSTILE,), (HOSTILE,))


def test_plain_text_holds_nothing_that_a_terminal_obeys() -> None:
    for words in (str(hostile()), hostile().why(HOSTILE)):
        assert all(line.isprintable() for line in words.split("\n"))
        assert "\\x1b]0;owned" in words


def test_rich_text_holds_only_the_escapes_of_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    screen = Terminal()
    show(hostile(), screen)
    shown = screen.getvalue()
    assert "\x1b]0" not in shown
    assert "\u202e" not in shown
    assert "[bold red]x" in shown  # a name is no markup


def test_a_terminal_gets_tables_and_a_pipe_gets_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    screen, pipe = Terminal(), io.StringIO()
    show(sample(), screen)
    show(sample(), pipe)
    assert "┃" in screen.getvalue()
    assert pipe.getvalue() == f"{sample()}\n"


def test_a_terminal_without_rich_gets_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich", None)
    screen = Terminal()
    monkeypatch.setattr("mixdown.reports.rendering.text.find_spec", lambda _: None)
    show(sample(), screen)
    assert screen.getvalue() == f"{sample()}\n"


def test_a_file_that_knows_few_characters_gets_the_others_as_numbers() -> None:
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    show(Report("für"), narrow)
    narrow.seek(0)
    assert narrow.read().startswith("f\\xfcr\n")
