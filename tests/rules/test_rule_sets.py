"""The lists as data: disjoint, of the size they have in TensorFlow, and naming nothing that does not exist."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest

from mixdown.rules import RULE_SETS, Category, RuleSet, known_kinds
from mixdown.rules.documented import DOCUMENTED, EXPONENTIALS, MISSED_ARITHMETIC, MISSED_MOVES, MISSED_PRODUCTS
from mixdown.rules.tensorflow_releases import TENSOR_LISTS, TF_2_19, TF_2_21

every_rule_set = pytest.mark.parametrize(
    "rules", [pytest.param(r, id=f"{name}-{low}") for name, both in RULE_SETS.items() for low, r in both.items()]
)
# On TensorFlow's lists, but registered only by builds other than the wheels on PyPI.
NOT_IN_THE_WHEEL = {
    "FastUnsortedSegmentMax",
    "FusedConv2DBiasActivation",
    "FusedSparseConvGpuV2",
    "Mha",
    "MhaV2",
    "Pmlp",
    "Tmlp",
    "TmlpV2",
    "TmlpV3",
    "VoxelMax",
}


@every_rule_set
def test_the_four_lists_are_disjoint(rules: RuleSet) -> None:
    lists = (rules.allow, rules.deny, rules.infer, rules.clear)
    assert not any(one & other for one, other in combinations(lists, 2))
    assert len(rules.categories) == sum(map(len, lists))
    assert {rules.categories[kind] for kind in rules.deny} == {Category.DENY}


def test_a_kind_on_two_lists_is_refused() -> None:
    rules = DOCUMENTED["float16"]
    with pytest.raises(ValueError, match=r"^Conv2D, MatMul stands on both the allow and the clear list\.$"):
        replace(rules, clear=rules.clear | {"MatMul", "Conv2D"})


@pytest.mark.parametrize(
    ("rules", "sizes"),
    [
        (TF_2_21["float16"], (39, 9, 43, 95 + 15)),
        (TF_2_21["bfloat16"], (14, 7, 48, 95 - 3 + 4 + 15)),
    ],
    ids=["float16", "bfloat16"],
)
def test_the_lists_of_tensorflow_are_complete(rules: RuleSet, sizes: tuple[int, ...]) -> None:
    assert tuple(map(len, (rules.allow, rules.deny, rules.infer, rules.clear))) == sizes
    assert len(TENSOR_LISTS) == 15
    assert rules.clear >= TENSOR_LISTS


def test_the_two_releases_differ_in_one_stage_and_in_float16_only() -> None:
    assert replace(TF_2_19["float16"], infer_follows_low=True) == TF_2_21["float16"]
    assert not TF_2_19["float16"].infer_follows_low
    assert TF_2_19["bfloat16"] == TF_2_21["bfloat16"]


@every_rule_set
def test_a_policy_may_speak_of_every_listed_kind(rules: RuleSet) -> None:
    assert rules.categories.keys() <= known_kinds(rules.host)


def test_documented_is_the_float16_lists_and_what_it_says_it_changes() -> None:
    base, ours = TF_2_21["float16"].categories, DOCUMENTED["float16"].categories
    changed = {kind for kind in base.keys() | ours.keys() if base.get(kind) is not ours.get(kind)}
    assert changed == EXPONENTIALS | MISSED_PRODUCTS | MISSED_ARITHMETIC | MISSED_MOVES
    assert DOCUMENTED["bfloat16"] == DOCUMENTED["float16"]
    assert not DOCUMENTED["float16"].infer_follows_low
