"""The minimum cut: right as a flow, and cheapest of all assignments that the rules permit."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_flow
from tests.core.strategies import graphs

from mixdown.core import Category, Paint, Plan, Policy, Role, make_plan
from mixdown.core.paint import casts_of
from mixdown.core.painting.cut import Problem
from mixdown.core.painting.min_cut import SINK, SOURCE, Network
from mixdown.core.painting.strategies import STRATEGIES
from mixdown.rules import rule_sets_for

if TYPE_CHECKING:
    from mixdown.core.paint import Canvas

MOST_FREE, FEWER_FREE = 16, 10
plans = st.builds(
    make_plan,
    graphs(),
    st.builds(Policy, strategy=st.just("optimal"), rules=st.sampled_from(rule_sets_for("TensorFlow"))),
)


@pytest.mark.parametrize("seed", range(300))
def test_a_cut_is_as_large_as_scipys_flow_and_severs_what_it_says(seed: int) -> None:
    dice, network = Random(seed), Network()  # noqa: S311 - a seed, no secret
    size = dice.randint(2, 12)
    for _ in range(size - 2):
        network.add_vertex()
    room = np.zeros((size, size), np.int32)
    for _ in range(dice.randint(1, 40)):
        tail, head = dice.sample(range(size), 2)
        there, back = dice.randint(0, 9), dice.choice((0, 0, dice.randint(0, 9)))
        network.add_arc(tail, head, there, back)
        room[tail, head] += there
        room[head, tail] += back
    cut = network.minimum_cut()
    severed = sum(room[a, b] for a in cut.source_side for b in range(size) if b not in cut.source_side)
    assert cut.capacity == severed == maximum_flow(csr_matrix(room), SOURCE, SINK).flow_value


def test_capacities_may_be_larger_than_any_machine_number() -> None:
    network = Network()
    middle = network.add_vertex()
    network.add_arc(SOURCE, middle, 10**30 + 1)
    network.add_arc(middle, SINK, 10**30)
    assert network.minimum_cut().capacity == 10**30


@settings(max_examples=2000, deadline=None)
@given(plans)
def test_no_assignment_that_the_rules_permit_moves_fewer_bytes(plan: Plan) -> None:
    groups = free_groups(plan)
    if len(groups) > MOST_FREE:
        return
    best = bill(plan, plan.paints)
    for choice in product((Paint.FULL, Paint.LOW), repeat=len(groups)):
        paints = list(plan.paints)
        for group, paint in zip(groups, choice, strict=True):
            for site in group:
                paints[site] = paint
        if keeps_existing_casts(plan, paints):
            other = bill(plan, paints)
            assert other >= best, (best, other)
            assert other > best or low(plan.paints) <= low(paints), "an equally cheap assignment has fewer low sites"


@st.composite
def partly_compiled(draw: st.DrawFn) -> Plan:
    """The plan of a graph of which any part is compiled."""
    graph = draw(graphs())
    compiled = draw(st.lists(st.booleans(), min_size=len(graph.ops), max_size=len(graph.ops)))
    ops = tuple(op._replace(compiled=its) for op, its in zip(graph.ops, compiled, strict=True))
    return make_plan(replace(graph, ops=ops), Policy(rules=draw(st.sampled_from(rule_sets_for("TensorFlow")))))


@settings(max_examples=300, deadline=None)
@given(partly_compiled())
def test_no_assignment_that_the_rules_permit_costs_a_compiled_graph_less(plan: Plan) -> None:
    groups, prices = free_groups(plan), plan.view.prices
    if len(groups) > FEWER_FREE:
        return
    best = prices.traffic(plan.paints).total
    for choice in product((Paint.FULL, Paint.LOW), repeat=len(groups)):
        paints = list(plan.paints)
        for group, paint in zip(groups, choice, strict=True):
            for site in group:
                paints[site] = paint
        assert not keeps_existing_casts(plan, paints) or prices.traffic(paints).total >= best


def free_groups(plan: Plan) -> list[list[int]]:
    """The sites that the cut decided, those that are tied together in one group."""
    groups = {site: {site} for site, strokes in enumerate(plan.strokes) if strokes[-1].stage == "cut"}
    for tie in plan.graph.ties:
        members = [site for site in (*tie.sites, *tie.followers) if site in groups]
        joined = set().union(*(groups[site] for site in members))
        groups.update(dict.fromkeys(joined, joined))
    return [sorted(group) for group in {id(group): group for group in groups.values()}.values()]


def bill(plan: Plan, paints: tuple[Paint, ...] | list[Paint]) -> int:
    """The bytes of an assignment, counted from nothing but shapes: 2 or 4 an element, 6 for a cast."""
    graph, total = plan.graph, 0
    for tensor, shape in zip(graph.tensors, graph.shapes, strict=True):
        assert shape is not None
        size = shape[0] or 0
        for site in (tensor.site, *tensor.consumers):
            if graph.sites[site].role is not Role.CONDUIT and graph.kinds[site] != "Identity":
                total += size * (2 if paints[site] is Paint.LOW else 4)
        total += 6 * size * any(paints[site] is not paints[tensor.site] for site in tensor.consumers)
    return total


def keeps_existing_casts(plan: Plan, paints: list[Paint]) -> bool:
    """Whether every cast that was there already is low only where all its readers are."""
    return not any(
        plan.graph.sites[tensor.site].role is Role.CONVERSION
        and paints[tensor.site] is Paint.LOW
        and any(paints[site] is Paint.FULL for site in tensor.consumers)
        for tensor in plan.graph.tensors
    )


def low(paints: tuple[Paint, ...] | list[Paint]) -> set[int]:
    return {site for site, paint in enumerate(paints) if paint is Paint.LOW}


@settings(max_examples=300, deadline=None)
@given(plans)
def test_the_flow_is_the_bytes_counted_on_the_painted_graph(plan: Plan) -> None:
    assert flow_and_count(plan)[0] == flow_and_count(plan)[1]


def flow_and_count(plan: Plan) -> tuple[int, int]:
    """What the cut says that the free part of a plan costs, and what a count of the painted graph says."""
    scene, prices, graph = plan.view, plan.view.prices, plan.graph
    canvas: Canvas = [None] * len(graph.sites)
    for stage in STRATEGIES["optimal"]:
        if stage.__name__ == "cut":
            break
        for site, stroke in stage(scene, canvas).items():
            canvas[site] = stroke.paint
    for site, strokes in enumerate(plan.strokes):
        canvas[site] = Paint.FULL if strokes[-1].stage in ("alone", "conduit_rounding") else canvas[site]
    problem = Problem(scene, canvas)
    free = set(problem.vertices)
    least = sum(prices.low(site) for site in range(len(graph.sites)))
    hard = sum(prices.low(s) for s, paint in enumerate(plan.paints) if s not in free and paint is Paint.FULL)
    between = sum(
        prices.cast(cast.tensor)
        for cast in casts_of(graph, plan.paints)
        if not free & {graph.tensors[cast.tensor].site, *graph.tensors[cast.tensor].consumers}
    )
    return problem.solve().capacity, prices.traffic(plan.paints).total - least - hard - between


@settings(max_examples=300, deadline=None)
@given(plans)
def test_every_decision_of_the_cut_says_what_the_other_way_would_have_cost(plan: Plan) -> None:
    for group in free_groups(plan):
        paints = list(plan.paints)
        for site in group:
            paints[site] = Paint.FULL if paints[site] is Paint.LOW else Paint.LOW
        if keeps_existing_casts(plan, paints):
            margin = {plan.strokes[site][-1].margin for site in group}
            assert margin == {bill(plan, paints) - bill(plan, plan.paints)}


@settings(max_examples=300, deadline=None)
@given(plans)
def test_allow_ops_are_always_converted_where_they_can_be(plan: Plan) -> None:
    tied = {site for tie in plan.graph.ties for site in (*tie.sites, *tie.followers)}
    for site in plan.view.sites_of(Category.ALLOW):
        assert plan.paints[site] is Paint.LOW or site in tied or not plan.view.supports[site]


@settings(max_examples=300, deadline=None)
@given(plans)
def test_a_low_site_hangs_on_a_low_allow_op(plan: Plan) -> None:
    graph, low_ones = plan.graph, low(plan.paints)
    tied = [{*tie.sites, *tie.followers} for tie in graph.ties]
    reached = roots = {site for site in low_ones if plan.view.categories[site] is Category.ALLOW}
    while True:
        links = {site for site in reached if graph.sites[site].role is not Role.CONVERSION} | roots
        near = {s for site in links for s in (*graph.predecessors[site], *graph.successors[site])}
        near |= {s for tie in tied if tie & links for s in tie}
        if not (near & low_ones) - reached:
            break
        reached = reached | (near & low_ones)
    assert low_ones == reached
