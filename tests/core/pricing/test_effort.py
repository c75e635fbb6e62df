"""How much work a plan is: arithmetic, bytes, and what the forward pass keeps for the backward pass."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.goldens.language import parse

from mixdown.core import Paint, Plan, Policy, make_plan
from mixdown.core.pricing.effort import FLOPS, Effort, effort_of, readable

STEP = """
    h = MatMul(x, w)
    r = Relu(h)
    v = Reshape(r)
    e = Exp(v)
    gradient_tape__e = Mul(e, v)
    gradient_tape__r = Relu(r)
    gradient_tape__h = MatMul(gradient_tape__r, x)
"""
ELEMENTS = 1024  # of each value: none has a known shape


def planned(policy: Policy | None = None, **changes: object) -> Plan:
    graph, plain = parse(STEP.splitlines())
    ops = tuple(op._replace(name=op.name.replace("__", "/")) for op in graph.ops)
    work = [300 if op.name == "h" else 100 * (op.kind == "MatMul") for op in ops]
    return make_plan(replace(graph, ops=ops, **{"work": work, **changes}), policy or plain)  # type: ignore[arg-type]  # the fields of a graph


def effort(plan: Plan) -> Effort:
    return effort_of(plan.view.prices, plan.paints)


def test_arithmetic_is_summed_by_precision() -> None:
    assert (effort(planned()).flops, effort(planned()).low_flops) == (400, 400)
    plan = planned()
    second = next(op.sites[0] for op in plan.graph.ops if op.name == "gradient_tape/h")
    paints = [Paint.LOW if site == second else Paint.FULL for site in range(len(plan.paints))]
    kept = effort_of(plan.view.prices, paints)
    assert (kept.flops, kept.low_flops, kept.share) == (400, 100, "25 %")


def test_bytes_are_those_of_the_plan_beside_all_float32() -> None:
    plan = planned()
    full = [Paint.FULL] * len(plan.paints)
    assert effort(plan).float32_bytes == plan.view.prices.traffic(full).total
    assert effort(plan).bytes == plan.view.prices.traffic(plan.paints).total
    untouched = effort_of(plan.view.prices, full)
    assert untouched.bytes == untouched.float32_bytes


def test_activations_are_what_gradients_read_of_the_forward_pass_and_views_count_once() -> None:
    plan = planned()
    names = [op.name for op in plan.graph.ops]
    paint = {name: plan.paints[plan.graph.ops[names.index(name)].sites[0]] for name in names}
    assert effort(plan).float32_activations == 3 * 4 * ELEMENTS  # x, e, and r with its view v
    assert paint["gradient_tape/e"] is Paint.FULL
    assert paint["gradient_tape/h"] is Paint.LOW
    assert effort(plan).activations < effort(plan).float32_activations + 2 * ELEMENTS
    full = effort_of(plan.view.prices, [Paint.FULL] * len(plan.paints))
    assert full.activations == full.float32_activations


def test_nothing_is_claimed_where_the_host_knows_no_arithmetic() -> None:
    assert effort(planned(work=())).share == ""


SHARES = {(0, 10): "0 %", (10, 10): "100 %", (9_999, 10_000): "99.9 %", (99_999, 100_000): "99.9 %", (5, 1000): "0.5 %"}


@pytest.mark.parametrize("part", SHARES)
def test_only_all_of_it_is_called_a_hundred_per_cent(part: tuple[int, int]) -> None:
    assert Effort(part[1], part[0]).share == SHARES[part]


def test_operations_have_units_for_people() -> None:
    assert [readable(count, FLOPS) for count in (0, 999, 1_480_000_000_000)] == ["0 FLOP", "999 FLOP", "1.48 TFLOP"]
