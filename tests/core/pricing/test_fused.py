"""The prices of compiled graphs, bit by bit: what a fusing compiler stores, and who has to agree with whom."""

from __future__ import annotations

import pytest
from tests.goldens.language import parse

from mixdown.core import Graph, Paint, Plan, Policy, make_plan
from mixdown.core.pricing.fused_bytes import HINT
from mixdown.core.pricing.moved_bytes import GUESS, Bond, Prices
from mixdown.rules.tensorflow_traits import TRAITS

N = 1000


def planned(*lines: str) -> Plan:
    """The cheapest plan of a compiled graph whose values all have N elements, unless a line says otherwise."""
    graph, _ = parse(lines)
    names = {tensor.name.partition(".")[0] for tensor in graph.tensors}
    sized = [
        f"shape {name} {N}" for name in sorted(names) if not any(line.startswith(f"shape {name} ") for line in lines)
    ]
    return make_plan(parse(["compiled", *sized, *lines])[0], Policy(devices="all"))


def prices(plan: Plan, name: str) -> tuple[int, int]:
    """What the value of an op costs low and full, in bytes an element."""
    (site,) = (op.sites[0] for op in plan.graph.ops if op.name == name)
    return plan.view.prices.low(site) // N, plan.view.prices.full(site) // N


def bonds(plan: Plan, maker: str, reader: str) -> list[tuple[int, bool]]:
    """What it costs, in bytes an element, if the two have different paints; hints are left out."""
    sites = {op.name: op.sites[0] for op in plan.graph.ops}
    found = []
    for index, tensor in enumerate(plan.graph.tensors):
        if tensor.site == sites[maker]:
            its = [bond for bond in plan.view.prices.bonds(index) if bond.readers == (sites[reader],)]
            found += [(bond.price // N, bond.only_down) for bond in its if bond.price >= N]
    return found


def test_what_a_library_call_makes_is_written_and_read_by_everyone() -> None:
    plan = planned("a = MatMul(x, w)", "b = Relu(a)", "c = Neg(a)")
    assert prices(plan, "a") == (2 * 3, 4 * 3)


def test_an_elementwise_value_is_stored_only_for_a_library_call_which_takes_16_bits_of_it() -> None:
    plan = planned("a = MatMul(x, w)", "r = Relu(a)", "b = MatMul(r, w)")
    assert prices(plan, "r") == (4, 4)
    alone = planned("a = MatMul(x, w)", "r = Relu(a)", "s = Neg(r)")
    assert prices(alone, "r") == (0, 0)


def test_a_view_costs_nothing_and_is_looked_through() -> None:
    plan = planned("a = MatMul(x, w)", "v = Reshape(a)", "b = MatMul(v, w)", "s = Shape(v)")
    assert prices(plan, "v") == (0, 0)
    assert prices(plan, "a") == (2 * 2, 4 * 2)


def test_a_value_and_a_view_of_it_are_one_stored_value() -> None:
    plan = planned("a = MatMul(x, w)", "v = Reshape(a)", "m = Mul(v, a)", "p = Relu(m)", "q = Neg(m)")
    assert prices(plan, "m") == (0, 0)


def test_a_costly_function_that_several_read_is_kept() -> None:
    kept = planned("a = MatMul(x, w)", "t = Tanh(a)", "p = Relu(t)", "q = Neg(t)")
    again = planned("a = MatMul(x, w)", "t = Relu(a)", "p = Relu(t)", "q = Neg(t)")
    assert prices(kept, "t") == (2 * 3, 4 * 3)
    assert prices(again, "t") == (0, 0)


@pytest.mark.parametrize(
    ("readers", "kept"),
    [
        (["p = Relu(s)", "q = Neg(s)"], True),
        (["p = Sum(s)", "q = Max(s)"], False),
        (["p = Relu(s)"], False),
    ],
)
def test_a_value_of_two_stored_ones_is_kept_if_it_is_worked_into_more(readers: list[str], *, kept: bool) -> None:
    plan = planned("a = MatMul(x, w)", "b = MatMul(x, v)", "s = Sub(a, b)", *readers)
    count = 1 + len(readers)
    assert prices(plan, "s") == ((2 * count, 4 * count) if kept else (0, 0))


@pytest.mark.parametrize(("size", "counts"), [(N // 2, True), (N // 2 - 1, False)])
def test_a_stored_value_counts_from_half_the_size_on(size: int, *, counts: bool) -> None:
    lines = ("a = MatMul(x, w)", "b = MatMul(x, v)", "s = Sub(a, b)", "p = Neg(s)", "q = Square(s)")
    assert prices(planned(f"shape b {size}", *lines), "s") == ((2 * 3, 4 * 3) if counts else (0, 0))


def test_a_value_of_three_stored_ones_is_kept_for_reductions_too() -> None:
    plan = planned(
        "a = MatMul(x, w)", "b = MatMul(x, v)", "c = MatMul(x, u)", "s = SelectV2(a, b, c)", "p = Sum(s)", "q = Max(s)"
    )
    assert prices(plan, "s") == (2 * 3, 4 * 3)


def test_a_costly_function_on_the_way_counts_as_much_as_another_reader() -> None:
    plan = planned("a = MatMul(x, w)", "b = MatMul(x, v)", "e = Exp(a)", "s = Sub(e, b)", "p = Sum(s)", "q = Max(s)")
    assert prices(plan, "s") == (2 * 3, 4 * 3)


def test_a_bias_behind_a_library_call_is_stored_with_it() -> None:
    plan = planned("a = MatMul(x, w)", "b = BiasAdd(a, c)", "r = Relu(b)")
    assert prices(plan, "b") == (2 * 2, 4 * 2)
    far = planned("a = Neg(x)", "b = BiasAdd(a, c)", "r = Relu(b)")
    assert prices(far, "b") == (0, 0)


def test_an_infer_op_behind_a_library_call_costs_if_it_is_full_and_an_allow_op_comes_later() -> None:
    plan = planned(
        "a = MatMul(x, w)", "v = Reshape(a)", "m = Mul(v, two)", "r = Relu(m)", "b = MatMul(r, w)", "shape two 1"
    )
    assert prices(plan, "m") == (0, 4 * 2)
    last = planned("a = MatMul(x, w)", "m = Mul(a, two)", "r = Relu(m)", "shape two 1")
    assert prices(last, "m") == (0, 0)
    added = planned("a = MatMul(x, w)", "m = AddV2(a, two)", "r = Relu(m)", "b = MatMul(r, w)", "shape two 1")
    assert prices(added, "m") == (0, 0)


def test_a_low_value_made_of_a_full_one_for_several_kernels_is_stored() -> None:
    plan = planned("a = MatMul(x, w)", "n = Sqrt(a)", "r = Relu(n)", "p = Neg(r)", "q = Square(r)")
    assert bonds(plan, "n", "r") == [(4, True)]
    single = planned("a = MatMul(x, w)", "n = Sqrt(a)", "r = Relu(n)", "p = Neg(r)")
    assert bonds(single, "n", "r") == []


def test_a_clear_reader_agrees_with_a_value_that_others_read_too() -> None:
    plan = planned("a = MatMul(x, w)", "n = Sqrt(a)", "r = Relu(n)", "p = Square(n)")
    assert bonds(plan, "n", "r") == [(4, False)]
    assert bonds(plan, "n", "p") == []


@pytest.mark.parametrize(("kind", "drawn"), [("Relu", True), ("Tanh", False)])
def test_only_a_clear_op_is_drawn_to_its_readers_where_nothing_else_is_at_stake(kind: str, *, drawn: bool) -> None:
    plan = planned("a = MatMul(x, w)", f"r = {kind}(a)", "b = MatMul(r, w)")
    sites = {op.name: op.sites[0] for op in plan.graph.ops}
    (made,) = (index for index, tensor in enumerate(plan.graph.tensors) if tensor.site == sites["r"])
    assert (Bond((sites["b"],), HINT) in plan.view.prices.bonds(made)) is drawn


def test_a_cast_between_two_library_calls_finds_nothing_to_fuse_with() -> None:
    plan = planned("a = MatMul(x, w)", "b = MatMul(a, w)")
    assert bonds(plan, "a", "b") == [(2, False)]


def test_without_shapes_every_value_counts_as_a_square_of_the_guess() -> None:
    graph, _ = parse(["a = MatMul(x, w)"])
    bare = Prices(Graph(graph.ops, graph.sites, graph.tensors), TRAITS)
    assert bare.elements(0) == GUESS * GUESS
    assert bare.guessed() == 1
    half = Prices(parse(["a = MatMul(x, w)", "shape x ? 3", "shape w 3 4"])[0], TRAITS)
    assert [half.elements(index) for index in range(2)] == [3 * GUESS, 12]
    assert half.guessed() == 1


def test_what_the_other_way_would_have_cost_counts_one_way_bonds_one_way() -> None:
    plan = planned("a = MatMul(x, w)", "n = Sqrt(a)", "r = Relu(n)", "p = Neg(r)", "q = Square(r)", "b = MatMul(q, w)")
    prices_of = plan.view.prices
    now = prices_of.traffic(plan.paints).total
    for site, strokes in enumerate(plan.strokes):
        if strokes[-1].stage == "cut":
            other = list(plan.paints)
            other[site] = Paint.FULL if other[site] is Paint.LOW else Paint.LOW
            assert strokes[-1].margin == prices_of.traffic(other).total - now


def test_a_plan_says_why_it_changes_nothing() -> None:
    assert planned("a = MatMul(x, w)").idle_reason == ""
    assert planned("a = Lgamma(x)").idle_reason == "no op in it can run in float16"


def test_the_argument_of_a_compiled_function_is_cast_by_who_reads_it() -> None:
    plan = planned("n = Sqrt(x)", "a = MatMul(n, w)")
    graph = plan.graph
    ops = tuple(op._replace(kind="_Arg", compiled=False) if op.kind == "Placeholder" else op for op in graph.ops)
    again = make_plan(Graph(ops, graph.sites, graph.tensors, shapes=graph.shapes), Policy(devices="all"))
    assert bonds(again, "x", "n") == []
    assert bonds(again, "w", "a") == [(2, False)]


def test_what_is_made_outside_costs_a_kernel_for_its_cast_whoever_reads_it() -> None:
    graph = planned("n = Sqrt(x)", "a = MatMul(n, w)").graph
    ops = tuple(op._replace(compiled=op.kind != "Placeholder") for op in graph.ops)
    plan = make_plan(Graph(ops, graph.sites, graph.tensors, shapes=graph.shapes), Policy(devices="all"))
    assert bonds(plan, "x", "n") == bonds(plan, "w", "a") == [(6, False)]


def test_a_bond_past_a_view_is_paid_whatever_the_view_is() -> None:
    plan = planned("t = Lgamma(x)", "v = Identity(t)", "a = MatMul(v, w)")
    sites = {op.name: op.sites[0] for op in plan.graph.ops}
    paints = [Paint.FULL] * len(plan.paints)
    before = plan.view.prices.traffic(paints).casts
    paints[sites["a"]] = Paint.LOW
    full_view = plan.view.prices.traffic(paints).casts - before
    paints[sites["v"]] = Paint.LOW
    low_view = plan.view.prices.traffic(paints).casts - before
    assert full_view // N == low_view // N == 2 + 2  # t with a, and w with a


@pytest.mark.parametrize(("kind", "relieved"), [("AddN", True), ("AddV2", True), ("Sub", False), ("Sqrt", False)])
def test_only_a_sum_that_an_allow_op_reads_may_be_low_behind_a_denied_op(kind: str, *, relieved: bool) -> None:
    plan = planned("e = Exp(x)", f"s = {kind}(e, y)", "v = Reshape(s)", "a = MatMul(v, w)")
    (site,) = (op.sites[0] for op in plan.graph.ops if op.name == "s")
    assert (site in plan.view.may_follow_denied) is relieved
    assert ("taint" in [stroke.stage for stroke in plan.strokes[site]]) is not relieved


def test_a_sum_that_nobody_allowed_reads_is_not_relieved() -> None:
    plan = planned("e = Exp(x)", "s = AddN(e, y)", "t = Lgamma(s)")
    assert plan.view.may_follow_denied == set()
