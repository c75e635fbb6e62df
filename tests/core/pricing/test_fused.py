"""The prices of compiled graphs, bit by bit: what a fusing compiler stores, and who has to agree with whom."""

from __future__ import annotations

import pytest
from tests.goldens.language import parse

from mixdown.core import Graph, Paint, Plan, Policy, make_plan
from mixdown.core.pricing.fused_bytes import FusedPrices
from mixdown.core.pricing.moved_bytes import GUESS, Prices
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


def stage(plan: Plan, name: str) -> str:
    """The stage that decided on an op."""
    (site,) = (op.sites[0] for op in plan.graph.ops if op.name == name)
    return plan.strokes[site][-1].stage


def test_what_a_library_call_makes_is_written_and_read_by_every_kernel() -> None:
    plan = planned("a = MatMul(x, w)", "r = Relu(a)", "b = MatMul(r, w)", "n = Neg(a)", "c = MatMul(n, w)")
    assert prices(plan, "a") == (2 * 3, 4 * 3)


def test_a_value_that_one_kernel_reads_is_never_stored() -> None:
    plan = planned("a = MatMul(x, w)", "t = Erf(a)", "p = Mul(t, a)", "c = MatMul(p, w)")
    assert prices(plan, "t") == (0, 0)
    assert prices(plan, "p") == (0, 0)


def test_a_value_that_readers_compute_from_what_they_read_anyway_is_better_full() -> None:
    plan = planned(
        "a = MatMul(x, w)",
        "r = Relu6(a)",
        "b = MatMul(r, w)",
        "g = Relu6Grad(b, r)",
        "s = Mul(g, a)",
        "c = MatMul(s, w)",
    )
    low, full = prices(plan, "r")
    assert low == full + 2  # in 16 bits the kernel of s reads it; in float32 it computes it from a
    (site,) = (op.sites[0] for op in plan.graph.ops if op.name == "r")
    assert plan.paints[site] is Paint.FULL


def test_a_hard_function_is_stored_rather_than_computed_again() -> None:
    sizes = [f"shape {name} {2**24}" for name in "xwatbpc"]
    lines = ("a = MatMul(x, w)", "t = {}(a)", "b = MatMul(t, w)", "p = Mul(t, a)", "c = MatMul(p, w)", *sizes)
    hard = planned(*(line.format("Erfc") for line in lines))
    easy = planned(*(line.format("Sqrt") for line in lines))
    assert prices(hard, "t")[0] < prices(hard, "t")[1]
    assert prices(easy, "t")[0] > prices(easy, "t")[1]


def test_a_sum_of_two_stored_values_is_stored_if_a_product_and_another_sum_read_it() -> None:
    plan = planned(
        *("a = MatMul(x, w)", "b = MatMul(x, v)", "s = AddV2(a, b)", "c = MatMul(s, w)"),
        *("t = AddV2(s, c)", "d = MatMul(t, w)"),
    )
    assert prices(plan, "s") == (4 + 2 + 2 + 2, 4 + 2 + 2 + 4)  # read a and b, write, then two readers


def test_reductions_that_read_the_same_are_one_kernel() -> None:
    one = planned("a = MatMul(x, w)", "p = Sum(a)", "b = MatMul(p, w)", "q = Max(a)", "c = MatMul(q, w)")
    assert prices(one, "a") == (2 * 2, 4 * 2)


@pytest.mark.parametrize(("size", "counts"), [(N // 8, True), (N // 8 - 1, False)])
def test_a_stored_value_counts_from_an_eighth_of_the_size_on(size: int, *, counts: bool) -> None:
    plan = planned(f"shape b {size}", "a = MatMul(x, w)", "b = MatMul(x, v)", "s = Sub(a, b)", "c = MatMul(s, w)")
    prices_of, names = plan.view.prices, [tensor.name for tensor in plan.graph.tensors]
    assert isinstance(prices_of, FusedPrices)
    behind = {names[source] for source in prices_of.fusion.values[names.index("s")].sources}
    assert behind == ({"a", "b"} if counts else {"a"})


def test_a_bias_behind_a_library_call_is_stored_with_it_if_several_read_it() -> None:
    lines = ("a = MatMul(x, w)", "b = BiasAdd(a, c)", "r = Relu(b)", "m = MatMul(r, w)", "shape c 10")
    several = planned(*lines, "q = Mul(b, m)", "z = MatMul(q, w)")
    assert prices(several, "b") == (2 * 3, 4 * 3)
    assert prices(planned(*lines), "b") == (0, 0)


def test_a_view_costs_nothing_and_is_looked_through() -> None:
    plan = planned("a = MatMul(x, w)", "v = Reshape(a)", "b = MatMul(v, w)", "s = Shape(v)")
    assert prices(plan, "v") == (0, 0)
    assert prices(plan, "a") == (2 * 2, 4 * 2)


def test_a_view_shows_what_a_product_reads() -> None:
    plan = planned("a = MatMul(x, w)", "e = Lgamma(a)", "v = Reshape(e)", "b = MatMul(v, w)", "g = Lgamma(v)")
    sites = {op.name: op.sites[0] for op in plan.graph.ops}
    assert plan.paints[sites["v"]] is Paint.LOW


def test_moves_come_after_rounding() -> None:
    plan = planned("a = MatMul(x, w)", "t = Slice(a)", "e = Lgamma(t)")
    sites = {op.name: op.sites[0] for op in plan.graph.ops}
    assert plan.paints[sites["t"]] is Paint.LOW


def test_a_table_is_not_cast_for_a_few_rows() -> None:
    plan = planned("e = GatherV2(t)", "a = MatMul(e, w)", f"shape t {100 * N}")
    assert bonds(plan, "t", "e") == [(6 * 100, False)]
    sites = {op.name: op.sites[0] for op in plan.graph.ops}
    assert plan.paints[sites["e"]] is Paint.FULL


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


def test_what_is_made_outside_costs_a_kernel_for_its_cast_whoever_reads_it() -> None:
    graph = planned("n = Sqrt(x)", "a = MatMul(n, w)").graph
    ops = tuple(op._replace(compiled=op.kind != "Placeholder") for op in graph.ops)
    plan = make_plan(Graph(ops, graph.sites, graph.tensors, shapes=graph.shapes), Policy(devices="all"))
    assert bonds(plan, "x", "n") == bonds(plan, "w", "a") == [(6, False)]


@pytest.mark.parametrize(("kind", "denies"), [("Exp", True), ("L2Loss", True), ("Softmax", False), ("Mean", False)])
def test_a_denied_op_denies_what_follows_if_its_results_may_be_large(kind: str, *, denies: bool) -> None:
    plan = planned("a = MatMul(x, w)", f"e = {kind}(a)", "s = Mul(e, a)", "b = MatMul(s, w)")
    assert (stage(plan, "s") == "taint") is denies


def test_what_applies_a_statistic_is_full_and_what_follows_it_is_not_denied() -> None:
    plan = planned(
        *("a = MatMul(x, w)", "m = Mean(a)", "n = Sub(a, m)", "s = Sigmoid(n)", "p = Mul(n, s)", "b = MatMul(p, w)"),
        "shape m 10",
    )
    assert [stage(plan, name) for name in "mn"] == ["taint", "taint"]
    assert [stage(plan, name) for name in "sp"] == ["cut", "cut"]


@pytest.mark.parametrize(("kind", "numbers", "full"), [("Sum", 64, False), ("Sum", 65, True), ("Expm1", 8, True)])
def test_what_follows_a_short_sum_may_be_16_bit(kind: str, numbers: int, *, full: bool) -> None:
    lines = ("a = MatMul(x, w)", f"s = {kind}(a)", "r = Sqrt(s)", "b = MatMul(r, w)", f"shape a {numbers * N}")
    plan = planned(*lines)
    assert stage(plan, "s") == "taint"  # the sum itself is denied
    assert (stage(plan, "r") == "taint") is full


def test_a_function_that_limits_what_it_is_given_is_safe_behind_a_denied_op() -> None:
    plan = planned("a = MatMul(x, w)", "s = Expm1(a)", "t = Tanh(s)", "b = MatMul(t, w)", "u = Mul(s, a)")
    assert [stage(plan, name) for name in "stu"] == ["taint", "cut", "taint"]


def test_a_sum_behind_a_denied_op_is_safe_if_a_product_rounds_it_anyway() -> None:
    lines = ("a = MatMul(x, w)", "e = Expm1(a)", "s = AddV2(e, a)", "{} = MatMul({}, w)", "t = Sub(s, a)")
    read = planned(*(line.format("b", "s") for line in lines))
    unread = planned(*(line.format("b", "a") for line in lines))
    assert stage(read, "s") == "cut"
    assert stage(unread, "s") == "taint"


RESIDUAL = (
    *("a = MatMul(x, w)", "b = MatMul(y, w)", "r = AddV2(a, b)", "m = Mean(r)", "d = Mul(r, m)"),
    *("e = Square(d)", "v = Mean(e)", "n = Mul(d, v)", "c = MatMul(n, w)", "s = AddV2(c, r)", "o = MatMul(s, w)"),
)


@pytest.mark.parametrize(
    ("low", "size", "stored"), [("bfloat16", 2**22, ["r"]), ("bfloat16", 2**12, []), ("float16", 2**22, [])]
)
def test_a_large_bfloat16_sum_that_many_kernels_read_is_to_be_stored(low: str, size: int, stored: list[str]) -> None:
    shapes = [f"shape {name} {1 if name in 'mv' else size}" for name in "xywabrmdevncso"]
    plan = make_plan(planned(*RESIDUAL, *shapes).graph, Policy(low=low, devices="all"))
    assert [plan.graph.tensors[tensor].name.partition(".")[0] for tensor in plan.stored] == stored


def test_a_value_with_one_source_is_computed_again_rather_than_stored() -> None:
    lines = [line.replace("AddV2(a, b)", "AddV2(a, k)") for line in RESIDUAL if not line.startswith("b ")]
    shapes = [f"shape {name} {1 if name in 'mvk' else 2**16}" for name in "xwarmdevncsok"]
    assert make_plan(planned(*lines, *shapes).graph, Policy(low="bfloat16", devices="all")).stored == ()


def test_what_only_selects_is_left_to_the_compiler() -> None:
    lines = [line.replace("AddV2(a, b)", "ReluGrad(a, b)") for line in RESIDUAL]
    shapes = [f"shape {name} {1 if name in 'mv' else 2**16}" for name in "xywabrmdevncso"]
    assert make_plan(planned(*lines, *shapes).graph, Policy(low="bfloat16", devices="all")).stored == ()


@pytest.mark.parametrize(("kind", "stored"), [("Relu", []), ("Erfc", ["r"])])
def test_a_cheap_reduction_joins_the_kernel_that_stores_a_value_for_products(kind: str, stored: list[str]) -> None:
    lines = ("a = MatMul(x, w)", "b = MatMul(y, w)", f"t = {kind}(a)", "r = AddV2(t, b)", "m = BiasAddGrad(r)")
    shapes = [f"shape {name} {1 if name == 'm' else 2**22}" for name in "xywabtrmc"]
    plan = make_plan(planned(*lines, "c = MatMul(r, w)", *shapes).graph, Policy(low="bfloat16", devices="all"))
    assert [plan.graph.tensors[tensor].name.partition(".")[0] for tensor in plan.stored] == stored


def test_a_slice_reads_no_more_of_its_source_than_it_makes() -> None:
    lines = [
        line.replace("AddV2(a, b)", "AddV2(q, k)").replace("b = MatMul(y, w)", "q = Slice(a)") for line in RESIDUAL
    ]
    shapes = [f"shape {name} {1 if name in 'mvk' else 2**16}" for name in "xwrmdevncsoqk"]
    plan = make_plan(planned(*lines, f"shape a {2**20}", *shapes).graph, Policy(low="bfloat16", devices="all"))
    assert plan.stored == ()


def test_the_lists_of_a_release_deny_what_they_denied() -> None:
    graph = planned("a = MatMul(x, w)", "m = Mean(a)", "s = Mul(m, a)", "b = MatMul(s, w)").graph
    plan = make_plan(graph, Policy(devices="all", rules="tf-2.21"))
    assert stage(plan, "s") == "taint"
