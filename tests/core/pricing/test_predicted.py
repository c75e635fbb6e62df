"""Predictions: a roofline per machine."""

from __future__ import annotations

import pytest
from tests.goldens.language import parse

from mixdown.core import Graph, Policy, make_plan
from mixdown.core.pricing.machines import MACHINES, Machine

CASE = ["a = MatMul(x, w)", "r = Relu(a)", "o = Lgamma(r)", *(f"shape {name} 1000 1000" for name in "xwar")]


def worked(graph: Graph, operations: int) -> Graph:
    """The graph with this much arithmetic in every matrix product."""
    work = tuple(operations if op.kind == "MatMul" else 0 for op in graph.ops)
    return Graph(graph.ops, graph.sites, graph.tensors, graph.ties, graph.flows, graph.shapes, work)


@pytest.mark.parametrize("machine", MACHINES.values(), ids=list(MACHINES))
def test_a_machine_is_bound_by_arithmetic_or_by_memory(machine: object) -> None:
    its = MACHINES[getattr(machine, "name", "")]
    assert set(its.arithmetic) == {"float32", "float16", "bfloat16"}
    assert its.time("float32", int(its.arithmetic["float32"] * 1e12), 0) == pytest.approx(1)
    assert its.time("float16", 1, int(its.memory * 1e9)) == pytest.approx(1)


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
