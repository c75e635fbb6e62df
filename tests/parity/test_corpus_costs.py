"""What the cheapest plan costs on the corpus: as much as the flow says, and no more than TensorFlow's own plans."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from benchmarks import corpus
from tests.core.painting.test_cheapest import flow_and_count

from mixdown import Policy, rewrite_graph_def
from mixdown.core import Paint

if TYPE_CHECKING:
    from mixdown.core import Plan

GRAPHS = [*corpus.TINY, *(pytest.param(name, marks=pytest.mark.slow) for name in corpus.FULL)]
UPDATES_IN_HALF = {"dcgan_k2", "dcgan_k3", "dcgan_tiny_k2", "dcgan_tiny_k3", "dlrm_tiny", "lstm_tiny"}
"""Where TensorFlow 2.21's plan is the cheaper one, for it rounds what a weight becomes: see test_update_safety.py."""


@pytest.fixture(scope="module", autouse=True)
def tiny_graphs() -> None:
    corpus.ensure(corpus.TINY)


def plan_of(name: str, policy: Policy) -> Plan:
    sample = corpus.load(name)
    return rewrite_graph_def(sample.graph_def, sample.fetches, feeds=sample.feeds, policy=policy).plan


def tensorflows(name: str, release: str) -> Plan:
    return plan_of(name, Policy(rules=f"tf-{release}", strategy="grappler", devices="all"))


def bytes_of(plan: Plan) -> int:
    return plan.view.prices.traffic(plan.paints).total


@pytest.mark.parametrize("name", GRAPHS)
def test_the_flow_is_the_bytes_counted_on_the_painted_graph(name: str) -> None:
    flow, count = flow_and_count(plan_of(name, Policy(devices="all")))
    assert flow == count
    assert flow > 0


@pytest.mark.parametrize("name", GRAPHS)
def test_no_more_bytes_are_moved_than_by_tensorflows_plans(name: str) -> None:
    ours, before, now = plan_of(name, Policy(devices="all")), tensorflows(name, "2.19"), tensorflows(name, "2.21")
    assert bytes_of(ours) <= bytes_of(before)
    assert bytes_of(ours) <= bytes_of(now) or name in UPDATES_IN_HALF


@pytest.mark.parametrize("name", GRAPHS)
def test_where_tensorflow_moves_less_it_rounds_updates_or_casts_tables(name: str) -> None:
    ours, now = plan_of(name, Policy(devices="all")), tensorflows(name, "2.21")
    spared = {
        site
        for site, strokes in enumerate(ours.strokes)
        if strokes[-1].stage in ("keep_tables_full", "keep_updates_full")
    }
    sound = [Paint.FULL if site in spared else paint for site, paint in enumerate(now.paints)]
    assert bytes_of(ours) <= now.view.prices.traffic(sound).total
