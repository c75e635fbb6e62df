"""Every float32 site of the corpus has a chain of causes, and the chain alone leads to its paint."""

from __future__ import annotations

from dataclasses import replace

import pytest
from benchmarks import corpus
from tests.parity.policies import LOWS, everywhere
from tests.parity.replay import ORDER, RULES, BrokenChainError, replay

from mixdown import rewrite_graph_def
from mixdown.core import Paint, Plan, Stroke
from mixdown.core.painting.strategies import STRATEGIES

GRAPHS = [*corpus.TINY, *(pytest.param(name, marks=pytest.mark.slow) for name in corpus.FULL)]


@pytest.fixture(scope="module", autouse=True)
def tiny_graphs() -> None:
    corpus.ensure(corpus.TINY)  # all in one child process, not one each


def planned(name: str, low: str, strategy: str) -> Plan:
    sample = corpus.load(name)
    policy = replace(everywhere(low, "documented"), strategy=strategy)
    return rewrite_graph_def(sample.graph_def, sample.fetches, feeds=sample.feeds, policy=policy).plan


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("low", LOWS)
@pytest.mark.parametrize("name", GRAPHS)
def test_replaying_the_causes_gives_the_same_paint(name: str, low: str, strategy: str) -> None:
    plan = planned(name, low, strategy)
    assert replay(plan) == list(plan.paints)
    assert Paint.LOW in plan.paints


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", GRAPHS)
def test_the_report_of_a_graph_has_the_whole_chain_of_every_op_in_words(name: str, strategy: str) -> None:
    sample = corpus.load(name)
    policy = replace(everywhere("float16", "documented"), strategy=strategy)
    rewrite = rewrite_graph_def(sample.graph_def, sample.fetches, feeds=sample.feeds, policy=policy)
    report = rewrite.report()
    assert [len(op.sites) for op in report.graphs[0].ops] == [len(op.sites) for op in rewrite.plan.graph.ops]
    assert all(site.reason and site.stage and site.category for op in report.graphs[0].ops for site in op.sites)
    assert {cast.tensor for cast in report.graphs[0].casts} == {
        rewrite.plan.graph.tensors[cast.tensor].name for cast in rewrite.plan.casts
    }
    for op in report.graphs[0].ops[:: max(1, len(report.graphs[0].ops) // 100)]:
        assert report.why(op.name) == rewrite.plan.why(op.name)


def test_the_replay_knows_every_stage() -> None:
    for strategy, stages in STRATEGIES.items():
        named = {stage.__name__ for stage in stages}
        assert named <= set(ORDER[strategy])
        assert set(ORDER[strategy]) <= set(RULES)


def test_the_replay_notices_a_cause_that_leads_elsewhere() -> None:
    plan = planned("bert_tiny", "float16", "grappler")
    low, full = (plan.paints.index(paint) for paint in (Paint.LOW, Paint.FULL))
    for broken in (Stroke(Paint.LOW, "soak", (full,)), Stroke(Paint.FULL, "taint", (low,)), Stroke(Paint.LOW, "rest")):
        strokes = [(broken,) if site == low else own for site, own in enumerate(plan.strokes)]
        try:
            assert replay(replace(plan, strokes=tuple(strokes))) != list(plan.paints)
        except BrokenChainError:
            continue
