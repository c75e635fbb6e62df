"""What holds for every plan, whatever the graph: each test is a law and its name says it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.second_plan import painted
from tests.core.strategies import graphs, policies, sized
from tests.goldens.language import parse

from mixdown.core import Agreement, Category, Graph, Op, Paint, Plan, Policy, Role, Site, Tensor, Tie, make_plan

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

LOW, FULL = Paint.LOW, Paint.FULL
plans = st.builds(make_plan, graphs(), policies())
laws = settings(max_examples=150, deadline=None)


def low_sites(plan: Plan) -> list[int]:
    return [site for site, paint in enumerate(plan.paints) if paint is LOW]


@laws
@given(plans)
def test_no_tensor_is_cast_twice_to_one_dtype(plan: Plan) -> None:
    assert len({cast.tensor for cast in plan.casts}) == len(plan.casts)


@laws
@given(plans)
def test_casts_stand_exactly_where_paints_differ(plan: Plan) -> None:
    crossing = {
        (index, plan.paints[reader])
        for index, tensor in enumerate(plan.graph.tensors)
        for reader in tensor.consumers
        if plan.paints[reader] is not plan.paints[tensor.site]
    }
    assert {(cast.tensor, cast.to) for cast in plan.casts} == crossing


@laws
@given(plans)
def test_a_denied_op_is_never_low(plan: Plan) -> None:
    assert not [site for site in low_sites(plan) if plan.view.categories[site] is Category.DENY]


@laws
@given(plans)
def test_an_infer_op_downstream_of_a_denied_one_is_never_low(plan: Plan) -> None:
    categories, graph = plan.view.categories, plan.graph
    soft = (Category.INFER, Category.CLEAR)
    queue = [site for site, category in enumerate(categories) if category is Category.DENY]
    for site in queue:
        reached = [s for s in graph.successors[site] if categories[s] in soft and s not in queue]
        queue.extend(reached)
    assert not [s for s in queue if categories[s] is Category.INFER and plan.paints[s] is LOW]


careful_plans = st.builds(make_plan, graphs(), policies().filter(lambda policy: policy.rule_set.keeps_exact))


@laws
@given(careful_plans)
def test_no_constant_becomes_infinite_or_zero(plan: Plan) -> None:
    spoilt = {"float16": (-1e9, 1e-12, -3.4028235e38), "bfloat16": (-3.4028235e38,)}[plan.policy.low]
    for tensor in plan.graph.tensors:
        if tensor.constant and tensor.constant.largest in spoilt:
            assert not [site for site in tensor.consumers if plan.paints[site] is LOW]


@laws
@given(careful_plans)
def test_what_depends_on_digits_reads_no_value_that_was_rounded_for_it(plan: Plan) -> None:
    graph = plan.graph
    for site, kind in enumerate(graph.kinds):
        if kind in ("Sin", "Round") or graph.sites[site].role is Role.TRUNCATION:
            near = [
                s for s in graph.predecessors[site] if graph.kinds[s] in ("Identity", "Mul", "Neg", "Relu", "Round")
            ]
            assert not [s for s in near if plan.paints[s] is LOW]


@laws
@given(careful_plans)
def test_integers_are_not_rounded(plan: Plan) -> None:
    exact = [site for site, its in enumerate(plan.graph.sites) if its.whole]
    known = [site for site in exact if all(s in exact for s in plan.graph.predecessors[site])]
    assert not [site for site in known if plan.paints[site] is LOW]


@laws
@given(plans)
def test_tied_sites_agree(plan: Plan) -> None:
    for tie in plan.graph.ties:
        paints = {plan.paints[site] for site in (*tie.sites, *tie.followers)}
        assert len(paints) == 1
        assert paints == {FULL} or tie.frozen is None


@laws
@given(plans)
def test_low_sites_may_change_are_defined_and_have_a_kernel(plan: Plan) -> None:
    graph = plan.graph
    for site in low_sites(plan):
        assert graph.ops[graph.sites[site].op].frozen is None
        assert graph.sites[site].legal
        assert graph.sites[site].kernel


@laws
@given(plans)
def test_an_unlisted_op_is_low_only_by_a_tie_or_as_a_cast(plan: Plan) -> None:
    tied = {site for tie in plan.graph.ties for site in (*tie.sites, *tie.followers)}
    for site in low_sites(plan):
        listed = plan.view.categories[site] is not Category.BARRIER
        assert listed or site in tied or plan.graph.sites[site].role is Role.CONVERSION


@laws
@given(plans)
def test_every_site_has_strokes_and_the_last_is_its_paint(plan: Plan) -> None:
    assert [strokes[-1].paint for strokes in plan.strokes] == list(plan.paints)


@laws
@given(plans)
def test_every_paint_can_be_traced_to_a_root_cause(plan: Plan) -> None:
    for op in plan.graph.ops:
        assert plan.why(op.name)
        for site in op.sites:
            assert roots(plan, site), plan.why(op.name)


def roots(plan: Plan, site: int) -> list[int]:
    """The sites without a further cause that a paint goes back to."""
    queue = [site]
    for here in queue:
        queue.extend(cause for cause in plan.strokes[here][-1].because if cause not in queue)
    return [here for here in queue if not plan.strokes[here][-1].because]


@laws
@given(graphs(), policies(), st.randoms(use_true_random=False))
def test_paints_do_not_depend_on_the_order_of_ops(graph: Graph, policy: Policy, random: Random) -> None:
    order = list(range(len(graph.sites)))
    random.shuffle(order)
    before, after = make_plan(graph, policy), make_plan(relabelled(graph, order), policy)
    assert [after.paints[order[site]] for site in range(len(order))] == list(before.paints)
    assert [cast.to for cast in after.casts] == [cast.to for cast in before.casts]


@laws
@given(graphs(), policies(), st.randoms(use_true_random=False))
def test_documented_paints_do_not_depend_on_the_order_of_the_hosts_nodes(
    graph: Graph, policy: Policy, random: Random
) -> None:
    documented, positions = replace(policy, rules="documented"), list(range(len(graph.ops)))
    random.shuffle(positions)
    ops = tuple(op._replace(position=position) for op, position in zip(graph.ops, positions, strict=True))
    assert make_plan(replace(graph, ops=ops), documented) == make_plan(graph, documented)


@laws
@given(graphs(followers=True), policies())
def test_a_follower_that_must_stay_full_keeps_its_tie_full(graph: Graph, policy: Policy) -> None:
    plan = make_plan(graph, policy)
    assert all(len({plan.paints[site] for site in (*tie.sites, *tie.followers)}) == 1 for tie in graph.ties)


def relabelled(graph: Graph, new: Sequence[int]) -> Graph:
    """The same graph with its sites numbered anew, and its ops in the order of their new first sites."""

    def move(sites: Sequence[int]) -> tuple[int, ...]:
        return tuple(sorted(new[site] for site in sites))

    old_ops = sorted(range(len(graph.ops)), key=lambda op: min(move(graph.ops[op].sites)))
    number = {old: index for index, old in enumerate(old_ops)}
    back = sorted(range(len(new)), key=new.__getitem__)
    return sized(
        Graph(
            tuple(graph.ops[old]._replace(sites=move(graph.ops[old].sites)) for old in old_ops),
            tuple(graph.sites[old]._replace(op=number[graph.sites[old].op]) for old in back),
            tuple(t._replace(site=new[t.site], consumers=move(t.consumers)) for t in graph.tensors),
            tuple(tie._replace(sites=move(tie.sites), followers=move(tie.followers)) for tie in reversed(graph.ties)),
            tuple((new[source], new[target]) for source, target in reversed(graph.flows)),
        )
    )


@laws
@given(graphs(), policies(), st.data())
def test_another_deny_op_never_makes_an_op_low(graph: Graph, policy: Policy, data: st.DataObject) -> None:
    sites = st.lists(st.integers(0, len(graph.sites) - 1), max_size=2, unique=True)
    more = with_deny_op(graph, data.draw(sites, "reads"), data.draw(sites, "is read by"))
    before, after = make_plan(graph, policy), make_plan(more, policy)
    assert not [site for site, paint in enumerate(before.paints) if paint is FULL and after.paints[site] is LOW]


def with_deny_op(graph: Graph, sources: Sequence[int], readers: Sequence[int]) -> Graph:
    """The graph with an Exp that reads from some sites and is read by others."""
    new = len(graph.sites)
    op = Op("zz", "Exp", "", (new,), position=len(graph.ops))
    inputs = tuple(Tensor(f"extra{source}", source, (new,)) for source in sources)
    return sized(
        replace(
            graph,
            ops=(*graph.ops, op),
            sites=(*graph.sites, Site(len(graph.ops), "T", legal=True, kernel=True)),
            tensors=(*graph.tensors, *inputs, Tensor("zz:0", new, tuple(readers))),
        )
    )


@laws
@given(plans)
def test_the_plan_of_a_rewritten_graph_changes_nothing(plan: Plan) -> None:
    again = make_plan(painted(plan), plan.policy)
    assert not again.changes_anything, again.to_dict()


@laws
@given(graphs(ties=False), policies(), st.sampled_from(Agreement))
def test_sites_tied_to_a_denied_one_are_full(graph: Graph, policy: Policy, agreement: Agreement) -> None:
    everyone = Tie(tuple(range(len(graph.sites))), agreement)
    plan = make_plan(replace(graph, ties=(everyone,)), policy)
    assert Category.DENY not in plan.view.categories or not plan.changes_anything


def test_a_denied_value_taints_what_is_read_from_a_list_even_if_the_list_is_frozen() -> None:
    lines = ["d = Exp(x)", "p = TensorListPushBack(d)", "q = TensorListPopBack()", "m = Mul(a, q)", "a = MatMul(y, w)"]
    graph, policy = parse([*lines, "b = MatMul(m, w)", "flow p -> q", "spread p q: its handle is an argument"])
    plan = make_plan(graph, policy)
    assert plan.paints[graph.ops[3].sites[0]] is FULL, plan.why("m")
