"""Predictions: a roofline per machine, and plans that are never predicted to be slower."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.strategies import graphs
from tests.goldens.language import parse

from mixdown.core import Graph, Paint, Policy, make_plan
from mixdown.core.clock import Kernel
from mixdown.core.pricing.machines import MACHINES, Machine
from mixdown.core.pricing.predicted_time import TimePrices
from mixdown.rules import rule_sets_for

CASE = ["a = MatMul(x, w)", "r = Relu(a)", "o = Lgamma(r)", *(f"shape {name} 1000 1000" for name in "xwar")]


def worked(graph: Graph, operations: int) -> Graph:
    """The graph with this much arithmetic in every matrix product."""
    work = tuple(operations if op.kind == "MatMul" else 0 for op in graph.ops)
    return Graph(graph.ops, graph.sites, graph.tensors, graph.ties, graph.flows, graph.shapes, work)


@pytest.mark.parametrize("machine", MACHINES.values(), ids=list(MACHINES))
def test_a_machine_is_bound_by_arithmetic_or_by_memory(machine: object) -> None:
    its = MACHINES[getattr(machine, "name", "")]
    assert set(its.arithmetic) == {"float32", "float16", "bfloat16"}
    assert its.time(Kernel("product", int(its.arithmetic["float32"] * 1e12), 0), "float32") == pytest.approx(1)
    assert its.time(Kernel("elementwise", 1, int(its.memory * 1e9) // 2), "float16") == pytest.approx(1)


@pytest.mark.parametrize("machine", MACHINES.values(), ids=list(MACHINES))
def test_no_machine_is_faster_in_float32_than_in_the_16_bits_it_was_made_for(machine: Machine) -> None:
    assert machine.arithmetic["float32"] <= max(machine.arithmetic["float16"], machine.arithmetic["bfloat16"])
    assert machine.arithmetic["float16"] <= 10 * machine.arithmetic["float32"]  # Tensor Cores take 8 for 1


def test_the_arithmetic_of_an_op_counts_once_however_many_types_it_has() -> None:
    lines = ["a = MatMul(x, U:s)", "o = Lgamma(a)", "p = Lgamma(a.U)", *(f"shape {name} 1" for name in "xsaop")]
    graph = worked(parse(lines)[0], 10**12)
    assert len(next(op for op in graph.ops if op.name == "a").sites) == 2
    assert make_plan(graph, Policy()).predicted(MACHINES["V100"]).float32 == pytest.approx(1 / 15.7, rel=1e-3)


def test_a_graph_of_unknown_arithmetic_is_predicted_by_what_it_moves() -> None:
    graph, _ = parse(CASE)
    bare = Graph(graph.ops, graph.sites, graph.tensors, shapes=graph.shapes)
    assert make_plan(bare, Policy()).predicted(MACHINES["V100"]).float32 == pytest.approx(8 * 4e6 / 900e9, rel=1e-3)


def test_a_prediction_counts_every_op_and_every_cast() -> None:
    graph, _ = parse(CASE)
    plan = make_plan(worked(graph, 10**9), Policy())
    found = plan.predicted(MACHINES["V100"])
    million = 4e6 / 900e9  # seconds to move 10^6 float32 numbers
    product = max(1e9 / 15.7e12, 3 * million)
    fixed = 3 * million  # written by x and w, read by Lgamma
    assert found.float32 == pytest.approx(product + 2 * million + fixed, rel=1e-3)
    low_product = max(1e9 / 125e12, 1.5 * million)
    casts = 3 * 1.5 * million  # of both operands, and of what Lgamma reads
    assert found.mixed == pytest.approx(low_product + million + fixed + casts, rel=1e-3)
    assert str(found).startswith("Predicted for V100 (a roofline, not a measurement): float32 ")


def test_an_allow_op_that_would_not_gain_stays_full_and_says_by_how_much() -> None:
    graph, _ = parse(CASE)
    idle = make_plan(worked(graph, 10), Policy(never_slower=True, machine="V100"))
    busy = make_plan(worked(graph, 10**12), Policy(never_slower=True, machine="V100"))
    assert not idle.changes_anything
    assert idle.why("a").startswith("a (MatMul) is float32: float16 would take 13.3 us more on the machine V100")
    assert busy.why("a").startswith("a (MatMul) is float16: it takes 55.7 ms less than in float32 on the machine V100")


@settings(max_examples=200, deadline=None)
@given(graphs(), st.sampled_from(rule_sets_for("TensorFlow")), st.sampled_from(sorted(MACHINES)), st.integers(0, 10**6))
def test_no_plan_is_predicted_to_be_slower_than_float32(graph: Graph, rules: str, machine: str, work: int) -> None:
    plan = make_plan(worked(graph, work), Policy(rules=rules, never_slower=True, machine=machine))
    prices = TimePrices(plan.graph, plan.view.traits, MACHINES[machine], "float16")
    full = [Paint.FULL] * len(plan.paints)
    assert prices.traffic(plan.paints).total <= prices.traffic(full).total
