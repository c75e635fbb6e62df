"""Policies as Python text."""

from __future__ import annotations

import pytest

import mixdown
from mixdown.numerics.calibrated import pasteable

POLICIES = {
    "a layer": mixdown.Policy(devices="all").with_keep(layer="head").with_deny("Relu", layer="head"),
    "the default": mixdown.Policy(),
    "every setting": mixdown.Policy("bfloat16", "tf-2.21", devices=("GPU", "CPU"), level="treat_infer_as_deny"),
    "overrides": mixdown.Policy().with_custom("Own").with_keep("MatMul", name="^a$").with_allow(scope="b"),
}


@pytest.mark.parametrize("case", POLICIES)
def test_a_pasted_policy_is_the_policy_with_every_setting(case: str) -> None:
    assert eval(pasteable(POLICIES[case]), {"mixdown": mixdown}) == POLICIES[case]  # noqa: S307 - as a user would
