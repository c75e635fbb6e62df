"""TensorFlow's environment variables: what they change, and what is refused instead of ignored."""

from __future__ import annotations

from typing import Any

import pytest

from mixdown.core import Category, Level, Policy
from mixdown.core.override import Override
from mixdown.errors import PolicyError

PREFIX = "TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_"


def read(**values: str) -> Policy:
    return Policy.from_environment({PREFIX + name: value for name, value in values.items()})


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"INFERLIST_ADD": "Lgamma"}, {"Lgamma": Category.INFER}),
        ({"CLEARLIST_ADD": " Lgamma , Digamma,"}, {"Lgamma": Category.CLEAR, "Digamma": Category.CLEAR}),
        ({"CLEARLIST_REMOVE": "Relu"}, {"Relu": Category.BARRIER}),
        ({"ALLOWLIST_ADD": "Exp", "DENYLIST_REMOVE": "Exp"}, {"Exp": Category.ALLOW}),
        ({"WHITELIST_ADD": "Exp", "BLACKLIST_REMOVE": "Exp"}, {"Exp": Category.ALLOW}),
        ({"GRAYLIST_REMOVE": "Tanh", "DENYLIST_ADD": "Tanh"}, {"Tanh": Category.DENY}),
        ({"ALLOWLIST_ADD": "Lgamma", "WHITELIST_REMOVE": "Lgamma"}, {}),
        ({"ALLOWLIST_ADD": "MatMul"}, {}),
        ({}, {}),
    ],
    ids=str,
)
def test_what_the_variables_change(values: dict[str, str], expected: dict[str, Category]) -> None:
    before, after = Policy().categories(), read(**values).categories()
    changed = {kind: after[kind] for kind in after if after[kind] is not before.get(kind)}
    assert changed == expected


def test_the_environment_of_the_process_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{PREFIX}LEVEL", "TENSOR_CORES_ONLY")
    policy = Policy.from_environment(low="bfloat16", devices="all")
    assert (policy.level, policy.low, policy.devices) == (Level.TENSOR_CORES_ONLY, "bfloat16", "all")


def test_a_level_given_in_code_holds_if_the_variables_say_nothing() -> None:
    assert Policy.from_environment({}, level="tensor_cores_only").level is Level.TENSOR_CORES_ONLY


REFUSED: list[Any] = [
    (
        {"ALLOWLIST_ADD": "Exp"},
        (
            f"Exp is on both the allow and the deny list. To move it, also name it in {PREFIX}DENYLIST_REMOVE or "
            f"{PREFIX}ALLOWLIST_REMOVE."
        ),
    ),
    ({"CLEARLIST_ADD": "Tanh"}, "Tanh is on both the infer and the clear list."),
    ({"ALLOWLIST_ADD": "Matmul"}, "TensorFlow has no op kind 'Matmul' (did you mean 'MatMul'?)"),
    ({"LEVEL": "ALL"}, "Unknown level 'all': choose from default, treat_infer_as_deny, tensor_cores_only, "),
    (
        {"LEVEL": "Unsafe_Force_All"},
        f"{PREFIX}LEVEL=UNSAFE_FORCE_ALL would put every op into 16 bits: mixdown does not",
    ),
    ({"DENYLIST_REMOVE": "Expo"}, "Expo"),
    ({"DENYLIST_REMOVE": "MatMul"}, "MatMul"),
]


@pytest.mark.parametrize(("values", "message"), REFUSED)
def test_what_is_refused_and_what_it_says(values: dict[str, str], message: str) -> None:
    with pytest.raises(PolicyError) as refused:
        read(**values)
    assert message in str(refused.value)


def test_overrides_given_in_code_are_kept() -> None:
    policy = Policy.from_environment({}, overrides=(Override(Category.DENY, "Tanh"),))
    assert policy.categories()["Tanh"] is Category.DENY
