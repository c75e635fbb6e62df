"""What differs between two reports."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.reports.samples import sample, step_graph

from mixdown.core import Policy
from mixdown.reports import Report
from mixdown.reports.compare import compare, unpaired
from mixdown.reports.model import CastRow, GraphReport, OpRow, SiteRow

DENIED = Policy().with_deny("MatMul")


def test_a_report_does_not_differ_from_itself() -> None:
    for graph in compare(sample(), sample()):
        assert (graph.changes, graph.casts_added, graph.casts_removed) == ((), (), ())
        assert (graph.ops_added, graph.ops_removed) == ((), ())
        assert graph.before == graph.after


@pytest.mark.parametrize("part", ["changes", "casts_added", "casts_removed", "ops_added", "ops_removed"])
def test_a_difference_of_any_sort_is_one(part: str) -> None:
    same = compare(sample(), sample())[0]
    assert same.is_same
    assert not replace(same, **{part: ("something",)}).is_same  # type: ignore[arg-type]


def test_graphs_without_a_partner_are_named() -> None:
    first = replace(sample(), graphs=(*sample().graphs, replace(step_graph(), name="old")))
    second = replace(sample(), graphs=(*sample().graphs, step_graph()))
    assert unpaired(first, second) == (["old"], ["train_step"])
    assert unpaired(Report("a", graphs=(step_graph(),)), Report("b", graphs=(replace(step_graph(), name="b"),))) == (
        [],
        [],
    )


def test_a_change_tells_the_dtypes_and_both_reasons() -> None:
    (step, _) = compare(sample(), sample(DENIED))
    change = next(each for each in step.changes if each.op == "head/MatMul")
    assert (change.dtype_before, change.dtype_after) == ("float16", "float32")
    assert (change.reason_before, change.reason_after) == ("MatMul is on the allow list", "MatMul is on the deny list")


def test_the_way_back_is_the_way_there_turned_round() -> None:
    there, back = compare(sample(), sample(DENIED))[0], compare(sample(DENIED), sample())[0]
    assert there.casts_added == back.casts_removed
    assert there.casts_removed == back.casts_added
    assert [(each.op, each.reason_before) for each in there.changes] == [
        (each.op, each.reason_after) for each in back.changes
    ]


def test_totals_are_those_of_the_reports() -> None:
    step = compare(sample(), sample(DENIED))[0]
    graph = sample().graphs[0]
    assert step.before.ops == step.after.ops == len(graph.ops)
    assert (step.before.low_ops, step.after.low_ops) == (len(graph.low_ops), 0)
    assert (step.before.casts, step.after.casts) == (len(graph.casts), 0)
    assert step.before.bytes == sum(cast.bytes or 0 for cast in graph.casts)


def test_two_single_graphs_are_compared_whatever_their_names() -> None:
    first, second = (Report("r", graphs=(replace(step_graph(), name=name),)) for name in ("one", "two"))
    assert [graph.name for graph in compare(first, second)] == ["two"]


def test_of_several_graphs_those_of_one_name_belong_together_in_turn() -> None:
    low, full = step_graph(), step_graph(DENIED)
    other = replace(low, name="other")
    compared = compare(Report("a", graphs=(low, full)), Report("b", graphs=(other, low, low)))
    assert [(graph.name, len(graph.changes)) for graph in compared] == [("train_step", 0), ("train_step", 5)]


def test_ops_and_casts_of_one_name_in_two_functions_are_two() -> None:
    def graph(*functions: str, low: str) -> GraphReport:
        sites = [SiteRow("T", "float16" if name == low else "float32", "allow", "seed", "why") for name in functions]
        ops = [OpRow("dense", "MatMul", name, (site,)) for name, site in zip(functions, sites, strict=True)]
        casts = [CastRow("dense:0", index, "float32", None) for index, name in enumerate(functions) if name == low]
        return GraphReport("g", "graph", "float16", rewritten=True, reason="", ops=tuple(ops), casts=tuple(casts))

    (step,) = compare(Report("a", graphs=(graph("f", "g", low="f"),)), Report("b", graphs=(graph("f", "h", low="h"),)))
    assert [(change.op, change.function) for change in step.changes] == [("dense", "f")]
    assert (step.ops_added, step.ops_removed) == (("dense in h",), ("dense in g",))
    assert (len(step.casts_added), len(step.casts_removed)) == (1, 1)
