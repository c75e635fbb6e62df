"""What a finished plan of a compiled graph moves and how long it takes, counted by hand."""

from __future__ import annotations

import re

import pytest
from tests.goldens.language import parse

from mixdown.core import Graph, Paint, Policy, Role, make_plan
from mixdown.core.policy_view import PolicyView
from mixdown.core.pricing import CompiledRun
from mixdown.core.pricing.machines import MACHINES

N = 10**6
TWO_PRODUCTS = ["a = MatMul(x, w)", "r = Relu(a)", "b = MatMul(r, w)", "o = Lgamma(b)", "work a 1000000000"]


def graph_of(*lines: str) -> Graph:
    """A compiled graph whose values all have N numbers; x, w, m, g are arguments, ops that assign write variables."""
    names = sorted({"x", "w", "m", "g"} & set(re.findall(r"\w+", " ".join(lines))))
    made = [line.partition(" = ")[0] for line in lines if " = " in line]
    shapes = [f"shape {name} 1000 1000" for name in (*names, *made)]
    graph, _ = parse(["compiled", f"conduit {' '.join(names)}", *lines, *shapes])
    writes = {site for op in graph.ops if op.kind == "AssignVariableOp" for site in op.sites}
    sites = tuple(site._replace(role=Role.WRITE) if at in writes else site for at, site in enumerate(graph.sites))
    return Graph(graph.ops, sites, graph.tensors, graph.ties, graph.flows, graph.shapes, graph.work)


def run(graph: Graph, *low: str) -> CompiledRun:
    """One run with these ops in 16 bits."""
    view = PolicyView(graph, Policy())
    paints = [Paint.LOW if graph.ops[site.op].name in low else Paint.FULL for site in graph.sites]
    return CompiledRun(graph, view.traits, view.categories, paints)


def test_in_float32_every_stored_value_is_written_once_and_read_by_each_kernel() -> None:
    # x is read once, w twice; the results of both products and the ReLU that one of them reads are written and read
    assert run(graph_of(*TWO_PRODUCTS)).bytes == 4 * N * (3 + 4 + 2)


def test_what_is_read_in_another_dtype_is_cast_once() -> None:
    found = run(graph_of(*TWO_PRODUCTS), "a", "r", "b")
    arguments = 4 * 2 + 2 * 2 + 2 * 3  # both are read and written again in 16 bits, and these are read
    assert found.bytes == N * (arguments + 2 * 2 + 2 * 2 + (2 + 2 + 4 + 4))


def test_a_bias_is_added_before_a_product_is_stored() -> None:
    plain = graph_of("a = MatMul(x, w)", "b = MatMul(a, w)", "o = Lgamma(b)", "work a 1")
    biased = graph_of(
        "a = MatMul(x, w)", "s = BiasAdd(a, v)", "b = MatMul(s, w)", "o = Lgamma(b)", "work a 1", "shape v 1"
    )
    assert run(biased, "a", "s", "b").bytes == pytest.approx(run(plain, "a", "b").bytes, rel=1e-5)


def test_results_of_one_size_that_are_computed_from_the_same_are_one_kernel() -> None:
    lines = ["n = Mul(m, g)", "v = Sub(m, g)", "p = AssignVariableOp(n)", "q = AssignVariableOp(v)"]
    assert run(graph_of(*lines)).bytes == 4 * N * (2 + 2)


def test_a_product_takes_as_long_as_its_arithmetic_and_the_rest_as_long_as_its_bytes() -> None:
    machine, found = MACHINES["V100"], run(graph_of(*TWO_PRODUCTS))
    rest = found.bytes - 3 * 4 * N  # the first product moves three values, and its arithmetic takes longer
    assert found.seconds(machine, "float16") == pytest.approx(1e9 / 15.7e12 + rest / 900e9)


def test_ops_outside_of_the_compiled_part_are_kernels_of_their_own() -> None:
    graph = graph_of("e = Exp(x)", "f = Exp(e)", "h = Relu(f)", "o = Lgamma(h)")
    ops = tuple(op._replace(compiled=op.name not in ("e", "f")) for op in graph.ops)
    apart = Graph(ops, graph.sites, graph.tensors, graph.ties, graph.flows, graph.shapes)
    assert run(apart).bytes > run(graph).bytes


def test_a_plan_of_a_compiled_graph_is_predicted_as_compiled() -> None:
    plan = make_plan(graph_of(*TWO_PRODUCTS), Policy(devices="all"))
    full, mixed = plan.compiled_runs(plan.paints)
    found = plan.predicted(MACHINES["A100"])
    assert found.float32 == full.seconds(MACHINES["A100"], "float16")
    assert found.mixed == mixed.seconds(MACHINES["A100"], "float16")
