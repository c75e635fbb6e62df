"""Candidates: what is tried for a plan, that each keeps within the policy, and what a stored policy must be like."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from tests.core.strategies import graphs, policies
from tests.goldens.language import parse

from mixdown.core import Graph, Level, Paint, Plan, Policy, make_plan
from mixdown.tuning.candidates import candidates, families, is_derived, refined

STEP = """
    c = Conv2D(x, w)
    n = FusedBatchNormV3(c)
    r = Relu(n)
    s = Tanh(r)
    q = Tanh(s)
    m = MatMul(q, v)
    t = Tanh(m)
    g = MatMul(t, v)
    k = Conv2DBackpropFilter(g, w)
    e = Exp(k)
"""


def planned(policy: Policy | None = None) -> Plan:
    graph, _ = parse(STEP.splitlines())
    names = {"c": "net/conv/c", "n": "net/conv/n", "m": "net/dense/m"}
    ops = tuple(op._replace(name=names.get(op.name, op.name)) for op in graph.ops)
    return make_plan(replace(graph, ops=ops), policy or Policy(devices="all"))


def low_kinds(plan: Plan) -> set[str]:
    return {plan.graph.kinds[site] for site, paint in enumerate(plan.paints) if paint is Paint.LOW}


def test_the_ops_of_a_plan_fall_into_families() -> None:
    assert families(planned()) == {
        "convolutions": ["Conv2D"],
        "element-wise": ["Relu", "Tanh"],
        "gradients of convolutions": ["Conv2DBackpropFilter"],
        "normalization": ["FusedBatchNormV3"],
        "products": ["MatMul"],
    }


def test_float32_comes_first_then_the_plan_then_each_family_left_out_or_alone() -> None:
    found = {each.name: low_kinds(planned(each.policy)) for each in candidates(planned(), "")}
    everything = low_kinds(planned())
    assert list(found)[:3] == ["float32", "float16", "float16 by TensorFlow's procedure"]
    assert found["float32"] == set()
    assert found["float16"] == everything
    without = "float16 element-wise and gradients of convolutions and normalization and products, float32 convolutions"
    assert "Conv2D" not in found[without]
    assert "MatMul" in found[without]
    assert found["float16 products only"] == {"MatMul"}
    assert found["float16 element-wise only"]
    assert found["float16 element-wise only"] <= {"FusedBatchNormV3", "Relu", "Tanh"}
    assert len(found) == 3 + 5 + 5


def test_the_other_dtype_is_tried_in_the_same_ways() -> None:
    found = candidates(planned(), "bfloat16")
    lows = [each.policy.low for each in found[1:]]
    assert lows == ["float16"] * 12 + ["bfloat16"] * 12
    assert [each.name.replace("bfloat16", "float16") for each in found[13:]] == [each.name for each in found[1:13]]


def test_what_a_rule_of_the_policy_names_is_left_to_the_rule() -> None:
    policy = Policy(devices="all").with_allow("MatMul")
    assert "products" not in families(planned(policy))
    assert all(each.policy.overrides[0] == policy.overrides[0] for each in candidates(planned(policy), ""))


def test_near_the_winner_families_and_the_largest_layers_are_left_out() -> None:
    plan = planned()
    won, *near = refined(candidates(plan, "")[1], plan)
    assert won.policy == plan.policy
    assert [each.name for each in near if "layer" in each.name] == [
        "float16, float32 layer net/conv",
        "float16, float32 layer net/dense",
    ]
    (layer,) = [each for each in near if each.name == "float16, float32 layer net/conv"]
    assert low_kinds(plan) - low_kinds(planned(layer.policy)) >= {"Conv2D"}


@settings(max_examples=60, deadline=None)
@given(graphs(), policies())
def test_every_candidate_is_a_valid_plan_that_is_derived_from_the_policy(graph: Graph, policy: Policy) -> None:
    plan = make_plan(graph, policy)
    tried = candidates(plan, "bfloat16")
    for each in (*tried, *refined(tried[1], plan)):
        assert is_derived(each.policy, plan.policy, "bfloat16")
        made = make_plan(graph, each.policy)  # raises if it breaks a law
        assert made.policy == each.policy


BASE = Policy(devices="all")


@pytest.mark.parametrize(
    "stranger",
    [
        BASE.with_allow("Softmax"),
        BASE.with_infer("Exp"),
        BASE.with_keep(name="(a+)+$"),
        replace(BASE, low="bfloat16"),
        replace(BASE, devices=("TPU",)),
        replace(BASE, rules="tf-2.21"),
        replace(BASE, level="treat_infer_as_deny"),
        replace(BASE, strategy="tuned"),
        replace(BASE, custom_kinds=frozenset({"Own"})),
    ],
    ids=repr,
)
def test_a_policy_that_does_more_than_keep_is_not_derived(stranger: Policy) -> None:
    assert not is_derived(stranger, BASE)


def test_element_wise_ops_alone_are_no_candidate_of_a_policy_that_has_a_level() -> None:
    base = replace(BASE, level=Level.TENSOR_CORES_ONLY)
    assert not is_derived(replace(base, level=Level.ELEMENT_WISE_ONLY), base)
    assert all(each.policy.level is not Level.ELEMENT_WISE_ONLY for each in candidates(planned(base), ""))
