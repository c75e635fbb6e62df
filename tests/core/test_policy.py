"""The policy: copies, the way through JSON, and every refusal."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, fields, replace
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.strategies import overrides

from mixdown.core import Category, Level, Policy
from mixdown.core.override import Override
from mixdown.errors import PolicyError
from mixdown.rules.layer_names import LayerScopes


class Layer:
    """As much of a Keras layer as a policy looks at."""

    def __init__(self, name: str) -> None:
        self.name = name


REFUSED: list[Any] = [
    (
        lambda: Policy(low="float8"),
        "Unknown 16-bit dtype 'float8' (did you mean 'float16'?): choose from float16, bfloat16.",
    ),
    (lambda: Policy(low="int8x"), "Unknown 16-bit dtype 'int8x': choose from float16, bfloat16."),
    (
        lambda: Policy(rules="tf-2.20"),
        "Unknown rule set 'tf-2.20' (did you mean 'tf-2.21'?): choose from documented, tf-2.19, tf-2.21, jax.",
    ),
    (lambda: Policy(strategy="graple"), "Unknown strategy 'graple' (did you mean 'grappler'?)"),
    (
        lambda: Policy(devices="G P U"),
        "Unknown devices 'G P U': give 'gpu', 'cpu', 'all', or device types such as ('GPU', 'CPU').",
    ),
    (lambda: Policy(devices=()), "Unknown devices (): give 'gpu'"),
    (lambda: Policy(devices=("GPU", 1)), "Unknown devices ('GPU', 1): give 'gpu'"),  # type: ignore[arg-type]
    (lambda: Policy(low=float), "Unknown 16-bit dtype 'float'"),  # type: ignore[arg-type]
    (lambda: Policy(low=16), "Unknown 16-bit dtype '16': choose from float16, bfloat16."),  # type: ignore[arg-type]
    (
        lambda: Policy().with_keep(Layer("head")),  # type: ignore[arg-type]
        "An op kind is a name such as 'MatMul', not the Layer 'head'. For the ops of a layer, write layer='head'.",
    ),
    (
        lambda: Policy().with_keep(Layer),  # type: ignore[arg-type]
        "An op kind is a name such as 'MatMul', not the class Layer. For the ops of a layer, pass the layer",
    ),
    (lambda: Policy().with_keep(3), "An op kind is a name such as 'MatMul', not 3 of type int."),  # type: ignore[arg-type]
    (lambda: Policy().with_keep(layer=Layer), "layer is a Keras layer or its name, not the class Layer."),
    (lambda: Policy().with_keep(layer=3), "layer is a Keras layer or its name, not 3."),  # type: ignore[arg-type]
    (lambda: Policy().with_keep("Dense"), "For the ops of a layer, write layer='Dense'."),
    (lambda: Policy().with_keep("tanh"), "TensorFlow has no op kind 'tanh' (did you mean 'Tanh'?), but JAX has"),
    (
        lambda: Policy(level="unsafe"),
        "Unknown level 'unsafe': choose from default, treat_infer_as_deny, tensor_cores_only, ",
    ),
    (lambda: Policy(level="tensor_cores"), "Unknown level 'tensor_cores' (did you mean 'tensor_cores_only'?)"),
    (lambda: Policy().with_deny("LayerNorm"), "TensorFlow has no op kind 'LayerNorm'"),
    (
        lambda: Policy().with_deny("LayerNorm"),
        "If it is an op of your own, declare it first: policy.with_custom('LayerNorm').",
    ),
    (lambda: Policy().with_allow("Matmul"), "TensorFlow has no op kind 'Matmul' (did you mean 'MatMul'?)."),
    (lambda: Policy().with_deny("Tahn"), "TensorFlow has no op kind 'Tahn' (did you mean 'Tanh'?)."),
    (lambda: Policy().with_allow("EXP"), "TensorFlow has no op kind 'EXP' (did you mean 'Exp'?)."),
    (
        lambda: Policy().with_allow("Exp").with_deny("Exp"),
        "Exp is put on both allow and deny: leave out one of the two.",
    ),
    (
        lambda: Policy().with_keep(scope="a/b", attribute="T").with_clear(scope="/a/b/", attribute="T"),
        "scope='/a/b/', attribute='T' is put on both barrier and clear: leave out one of the two.",
    ),
    (
        lambda: Policy().with_infer(),
        "Say which ops: give op kinds, layer=<a Keras layer or its name>, name=<regular expression> or scope=<part of ",
    ),
    (lambda: Policy().with_infer(attribute="T"), "Say which ops: give op kinds"),
    (lambda: Policy().with_infer(""), "Say which ops: give op kinds"),
    (
        lambda: Policy().with_deny(name="(a"),
        "name='(a' is not a regular expression: missing ), unterminated subpattern at position 0.",
    ),
    (
        lambda: Policy.from_dict({"lows": "float16"}),
        "the policy has no lows; it has low, rules, strategy, devices, level, overrides, ",
    ),
    (
        lambda: Policy(or_low="bfloat16"),
        "or_low, expected_calls and choices are for tuning: give strategy='tuned', too.",
    ),
    (lambda: Policy(expected_calls=5), "or_low, expected_calls and choices are for tuning"),
    (lambda: Policy(choices=(("1", Policy()),)), "or_low, expected_calls and choices are for tuning"),
    (lambda: Policy(strategy="tuned", or_low="int8"), "Unknown 16-bit dtype 'int8'"),
    (
        lambda: Policy(strategy="tuned", expected_calls=-1),
        "expected_calls is a number of calls, 0 if it is not known; got -1.",
    ),
    (lambda: Policy(strategy="tuned", expected_calls=True), "expected_calls is a number of calls"),
    (
        lambda: Policy.from_dict({"strategy": "tuned", "choices": [["1", {"low": 3}]]}),
        "low of the policy should be text.",
    ),
    (lambda: Policy.from_dict({"custom_kinds": [1]}), "custom_kinds[0] of the policy should be text."),
    (lambda: Policy().with_deny(name="(" * 5000 + ")" * 5000), "is not a regular expression: "),
    (lambda: Policy.from_dict({"low": 16}), "low of the policy should be text."),
    (lambda: Policy.from_dict({"devices": []}), "Unknown devices (): give 'gpu'"),
    (
        lambda: Policy.from_dict({"level": None}),
        "level of the policy should be one of default, ",
    ),
    (
        lambda: Policy.from_dict({"overrides": [{"category": "deny", "kinds": "Exp"}]}),
        "overrides[0] of the policy has no kinds; it has category, kind, name, scope, attribute, layer.",
    ),
    (
        lambda: Policy.from_dict({"overrides": [{"category": "never", "kind": "Exp"}]}),
        "overrides[0].category of the policy should be one of allow, deny, infer, clear, barrier.",
    ),
    (
        lambda: Policy.from_dict({"overrides": [{"kind": "Exp"}]}),
        "is incomplete: it has no category.",
    ),
    (
        lambda: Policy.from_dict({"overrides": [{"category": "deny", "kind": "Expo"}]}),
        "TensorFlow has no op kind 'Expo'",
    ),
]
UNNOTICED: list[Any] = [
    (lambda: Policy.from_dict({"overrides": [{"category": "deny", "name": 3}]}), "name"),
    (lambda: Policy.from_dict({"overrides": ["Exp"]}), "override"),
    (lambda: Policy.from_dict({"overrides": 5}), "overrides"),
    (lambda: Policy.from_dict({"custom_kinds": "Mine"}), "custom_kinds"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_what_a_policy_refuses_and_what_it_says(make: Any, message: str) -> None:
    with pytest.raises(PolicyError) as refused:
        make()
    assert message in str(refused.value)


@pytest.mark.parametrize(("make", "message"), UNNOTICED)
def test_plain_data_of_the_wrong_shape_is_refused_too(make: Any, message: str) -> None:
    test_what_a_policy_refuses_and_what_it_says(make, message)


def test_a_field_that_does_not_exist_is_refused_with_the_one_that_is_meant() -> None:
    with pytest.raises(TypeError, match=r"^Policy has no field 'lwo' \(did you mean 'low'\?\)\.$"):
        Policy(lwo="float16")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^Policy has no field 'speed'\.$"):
        replace(Policy(), speed=1)  # type: ignore[call-arg]
    assert list(signature(Policy).parameters) == [field.name for field in fields(Policy)]  # what editors show


ACCEPTED: list[Any] = [
    (lambda: Policy(low="fp16"), Policy(low="float16")),
    (lambda: Policy(low="half"), Policy(low="float16")),
    (lambda: Policy(low="BF16"), Policy(low="bfloat16")),
    (lambda: Policy(low=np.float16), Policy(low="float16")),  # type: ignore[arg-type]
    (lambda: Policy(low=np.dtype("float16")), Policy(low="float16")),  # type: ignore[arg-type]
    (lambda: Policy(devices="cpu"), Policy(devices=("CPU",))),
    (lambda: Policy(devices="GPU"), Policy(devices="gpu")),
    (lambda: Policy(devices="ALL"), Policy(devices="all")),
    (lambda: Policy(devices=["gpu", "CPU"]), Policy(devices=("GPU", "CPU"))),  # type: ignore[arg-type]
    (lambda: Policy().with_keep(["Tanh", "Exp"]), Policy().with_keep("Tanh", "Exp")),
    (lambda: Policy().with_keep({"Tanh", "Exp"}), Policy().with_keep("Exp", "Tanh")),
    (lambda: Policy(overrides=[Override(Category.DENY, "Exp")]), Policy().with_deny("Exp")),  # type: ignore[arg-type]
    (lambda: Policy(custom_kinds=["Own"]), Policy().with_custom("Own")),  # type: ignore[arg-type]
    (lambda: Policy().with_custom(["Own"]), Policy().with_custom("Own")),
    (lambda: Policy().with_keep(layer=Layer("head")), Policy().with_keep(layer="head")),
    (lambda: Policy().with_keep(layer="block/head/"), Policy().with_keep(layer="block/head")),
]


@pytest.mark.parametrize(("make", "same"), ACCEPTED)
def test_what_people_write_is_accepted(make: Any, same: Policy) -> None:
    made = make()
    assert made == same
    assert hash(made) == hash(same)
    assert Policy.from_dict(json.loads(json.dumps(made.to_dict()))) == same


def test_the_defaults() -> None:
    policy = Policy()
    assert (policy.low, policy.rules, policy.devices, policy.level) == (
        "float16",
        "documented",
        ("GPU",),
        Level.DEFAULT,
    )
    assert policy.admits("GPU")
    assert not policy.admits("CPU")
    assert Policy(devices="all").admits("ANYTHING")
    assert Policy(level="tensor_cores_only").level is Level.TENSOR_CORES_ONLY


@pytest.mark.parametrize(
    ("change", "category"),
    [
        ("with_allow", Category.ALLOW),
        ("with_deny", Category.DENY),
        ("with_infer", Category.INFER),
        ("with_clear", Category.CLEAR),
        ("with_keep", Category.BARRIER),
    ],
)
def test_a_change_makes_a_copy_and_leaves_the_original_alone(change: str, category: Category) -> None:
    original = Policy()
    before = original.to_dict()
    changed = getattr(original, change)("Exp", "Softplus")
    assert {changed.categories()[kind] for kind in ("Exp", "Softplus")} == {category}
    assert original.to_dict() == before
    assert original == Policy()
    assert changed != original


def test_a_policy_is_immutable_and_can_be_a_key() -> None:
    policy = Policy().with_deny("Tanh")
    with pytest.raises(FrozenInstanceError):
        policy.low = "bfloat16"  # type: ignore[misc]
    assert {policy: 1}[Policy().with_deny("Tanh")] == 1


def test_a_kind_of_ones_own_is_welcome_once_declared() -> None:
    policy = Policy().with_custom("MyAttention").with_allow("MyAttention")
    assert policy.categories()["MyAttention"] is Category.ALLOW


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("default", {"MatMul": "allow", "Tanh": "infer", "Exp": "deny", "Relu": "clear"}),
        ("treat_infer_as_deny", {"MatMul": "allow", "Tanh": "deny", "Exp": "deny", "Relu": "clear"}),
        ("tensor_cores_only", {"MatMul": "allow", "Tanh": "barrier", "Exp": "barrier", "Relu": "barrier"}),
        ("element_wise_only", {"MatMul": "allow", "Tanh": "infer", "Exp": "deny", "Relu": "clear"}),
        ("nothing", {"MatMul": "barrier", "Tanh": "barrier", "Exp": "barrier", "Relu": "barrier"}),
    ],
)
def test_what_the_categories_are_at_each_level(level: str, expected: dict[str, str]) -> None:
    categories = Policy(level=level).categories()
    assert {kind: categories[kind].value for kind in expected} == expected


@pytest.mark.parametrize(
    ("override", "matched"),
    [
        (Override(Category.DENY, kind="Exp"), {"a/b/exp", "exp"}),
        (Override(Category.DENY, name="^a"), {"a/b/exp", "ab/relu"}),
        (Override(Category.DENY, scope="a"), {"a/b/exp"}),
        (Override(Category.DENY, scope="a/b"), {"a/b/exp"}),
        (Override(Category.DENY, scope="b/"), {"a/b/exp"}),
        (Override(Category.DENY, scope="relu"), {"ab/relu"}),
        (Override(Category.DENY, kind="Relu", scope="a"), set()),
        (Override(Category.DENY, name="x.*", kind="Exp"), {"a/b/exp", "exp"}),
        (Override(Category.DENY, layer="b"), {"a/b/exp"}),
        (Override(Category.DENY, layer="a/b", kind="Relu"), set()),
    ],
)
def test_which_ops_an_override_means(override: Override, matched: set[str]) -> None:
    ops = {"a/b/exp": "Exp", "ab/relu": "Relu", "exp": "Exp"}
    assert {name for name, kind in ops.items() if override.matches(kind, name, LayerScopes(ops))} == matched


@settings(deadline=None)
@given(
    st.sampled_from(["float16", "bfloat16"]),
    st.sampled_from(["documented", "tf-2.19", "tf-2.21"]),
    st.sampled_from(["gpu", "all", ("CPU",), ("GPU", "TPU_SYSTEM")]),
    st.sampled_from(Level),
    st.lists(overrides(), max_size=4, unique_by=lambda override: override.selector),
)
def test_a_policy_comes_back_from_json(
    low: str, rules: str, devices: Any, level: Level, changes: list[Override]
) -> None:
    policy = Policy(
        low=low,
        rules=rules,
        devices=devices,
        level=level,
        overrides=tuple(changes),
        custom_kinds=frozenset({"MyOwnOp"}),
    )
    text = json.dumps(policy.to_dict())
    assert Policy.from_dict(json.loads(text)) == policy
    assert json.dumps(Policy.from_dict(json.loads(text)).to_dict()) == text


def test_a_saved_policy_comes_back_with_every_field(tmp_path: Path) -> None:
    policy = Policy(
        low="bfloat16",
        rules="tf-2.21",
        devices=("GPU", "CPU"),
        level="treat_infer_as_deny",
        strategy="tuned",
        custom_kinds=frozenset({"Own"}),
        or_low="fp16",
        expected_calls=10_000,
        choices=(("1234", Policy(level="nothing")), ("5678", Policy().with_keep("Exp", layer="head"))),
    ).with_deny("Exp", name="^a", attribute="T", layer=Layer("head"))
    assert {name for name in vars(policy) if getattr(policy, name) == getattr(Policy(), name)} == set()
    assert Policy.load(policy.save(tmp_path / "policy.json")) == policy


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "policy.json holds no policy: it is not JSON"),
        ("[]", "policy.json holds no policy: the policy should be an object."),
        ('{"low": "int8"}', "policy.json holds no policy: Unknown 16-bit dtype 'int8'"),
    ],
)
def test_a_file_that_holds_something_else_is_refused_by_name(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    path.write_text(text, "utf-8")
    with pytest.raises(PolicyError) as refused:
        Policy.load(path)
    assert message in str(refused.value)


def test_a_policy_that_is_tuned_plans_as_the_cheapest_until_calls_are_timed() -> None:
    tuned = Policy(strategy="tuned", low="bfloat16", or_low="float16", expected_calls=9, choices=(("1", Policy()),))
    assert tuned.untuned == Policy(low="bfloat16")
    assert Policy(strategy="grappler").untuned == Policy(strategy="grappler")
