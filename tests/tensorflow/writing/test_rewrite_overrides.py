"""A user's changes to the lists, seen in the rewritten graph; levels and list edits equal to TensorFlow's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from benchmarks.oracle import theirs
from benchmarks.rewrite_difference import differences
from tests.tensorflow.graph_kit import CPU, EYE, ONES, checked, graph_of, low_nodes, matmul, out, raw, x

from mixdown import Policy, rewrite_graph_def
from mixdown.errors import PolicyError

PREFIX = "TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_"
FEEDS = {"x": ONES / 2, "y": EYE}


def tower() -> Any:
    """encoder/a -> encoder/t (Tanh) -> decoder/b -> decoder/e (Exp) -> decoder/s (Sigmoid) -> decoder/c."""

    def build() -> None:
        x(), x("y")
        with tf.name_scope("encoder"):
            t = raw.Tanh(x=matmul(x(), x("y"), "a"), name="t")
        with tf.name_scope("decoder"):
            b = matmul(t, x("y"), "b")
            s = raw.Sigmoid(x=raw.Exp(x=b, name="e"), name="s")
            c = matmul(s, x("y"), "c")
        out(raw.Relu(features=c, name="decoder_relu"))

    return graph_of(build)


PLAIN = {"encoder/a", "encoder/t", "decoder/b", "decoder/c", "decoder_relu"}
CHANGES: list[tuple[str, Any, set[str]]] = [
    ("nothing", CPU, PLAIN),
    ("allow a kind", CPU.with_allow("Exp"), PLAIN | {"decoder/e", "decoder/s"}),
    ("allow an op by name", CPU.with_allow(name="/e$"), PLAIN | {"decoder/e", "decoder/s"}),
    ("infer a kind", CPU.with_infer("Exp"), PLAIN | {"decoder/e", "decoder/s"}),
    ("clear a kind", CPU.with_clear("Exp"), PLAIN | {"decoder/e", "decoder/s"}),
    ("deny a kind", CPU.with_deny("MatMul"), set()),
    ("deny an op by name", CPU.with_deny(name="^encoder/t$"), PLAIN - {"encoder/t"}),
    ("deny a scope", CPU.with_deny(scope="encoder"), PLAIN - {"encoder/a", "encoder/t"}),
    ("a scope is made of whole names", CPU.with_deny(scope="decoder"), {"encoder/a"}),
    ("a kind in a scope", CPU.with_keep("MatMul", scope="decoder"), {"encoder/a"}),
    ("keep does not deny what follows", CPU.with_keep("Exp"), PLAIN),
    ("keep ends at the op", CPU.with_keep(name="^decoder/e$").with_allow("Lgamma"), PLAIN),
    ("a kind by name and scope", CPU.with_deny("Tanh", name="t", scope="encoder"), PLAIN - {"encoder/t"}),
    ("the last name rule wins", CPU.with_deny(name="coder/t").with_allow(name="encoder/t"), PLAIN),
]


@pytest.mark.parametrize(("policy", "low"), [pytest.param(p, low, id=name) for name, p, low in CHANGES])
def test_an_override_changes_the_graph(policy: Policy, low: set[str]) -> None:
    assert checked(tower(), FEEDS, policy=policy).run.low() == low


def test_deny_taints_what_follows_and_keep_does_not() -> None:
    def build() -> None:
        first = matmul(x(), x("y"), "a")
        middle = raw.AddV2(x=raw.Relu(features=first, name="r"), y=first, name="sum")
        out(matmul(middle, x("y"), "b"))

    graph_def = graph_of(build)
    assert checked(graph_def, FEEDS, policy=CPU.with_deny("Relu")).run.low() == {"a", "b"}
    assert checked(graph_def, FEEDS, policy=CPU.with_keep("Relu")).run.low() == {"a", "sum", "b"}


def test_one_type_attribute_can_be_overridden() -> None:
    def build() -> None:
        a, b = raw.IdentityN(input=[matmul(x(), x("y"), "a"), matmul(x("y"), x(), "b")], name="pair")
        out(matmul(a, b, "c"))

    result = checked(graph_of(build), FEEDS, policy=CPU.with_keep(name="pair", attribute="T[1]"))
    assert result.types("pair") == {"T": ["float16", "float32"]}


def test_the_data_of_a_batch_norm_can_be_kept() -> None:
    def build() -> None:
        conv: dict[str, Any] = {"filter": tf.ones([1, 1, 1, 1]), "strides": [1] * 4, "padding": "SAME"}
        a = raw.Conv2D(input=x("v", (1, 2, 2, 1)), name="a", **conv)
        ones = tf.ones([1])
        norm = raw.FusedBatchNormV3(
            x=a, scale=ones, offset=ones, mean=ones, variance=ones, is_training=False, name="norm"
        )
        out(raw.Conv2D(input=norm[0], name="b", **conv))

    feeds = {"v": np.arange(4, dtype=np.float32).reshape(1, 2, 2, 1)}
    assert checked(graph_of(build), feeds).types("norm") == {"T": "float16", "U": "float32"}
    kept = checked(graph_of(build), feeds, policy=CPU.with_keep("FusedBatchNormV3", attribute="T"))
    assert kept.types("norm") == {"T": "float32", "U": "float32"}
    assert kept.run.low() == {"a", "b"}


@pytest.mark.parametrize("change", [{"kinds": ["FusedBatchNorm"]}, {"kinds": ["FusedBatchNorm"], "name": "norm"}])
def test_an_old_batch_norm_answers_to_its_own_kind(change: Any) -> None:
    def build() -> None:
        conv: dict[str, Any] = {"filter": tf.ones([1, 1, 1, 1]), "strides": [1] * 4, "padding": "SAME"}
        ones, a = tf.ones([1]), raw.Conv2D(input=x("v", (1, 2, 2, 1)), name="a", **conv)
        norm = raw.FusedBatchNorm(
            x=a, scale=ones, offset=ones, mean=ones, variance=ones, is_training=False, name="norm"
        )
        out(raw.Conv2D(input=norm[0], name="b", **conv))

    policy = CPU.with_keep(*change.pop("kinds"), **change)
    assert low_nodes(rewrite_graph_def(graph_of(build), ["out"], policy=policy).graph_def) == {"a", "b"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "attention"}, "Nothing in this graph matches name='attention': mend or remove that rule."),
        ({"scope": "enc"}, "Nothing in this graph matches scope='enc': mend or remove that rule."),
        (
            {"name": "t", "scope": "x/y"},
            "Nothing in this graph matches name='t', scope='x/y': mend or remove that rule.",
        ),
        ({"name": "/a$", "attribute": "U"}, "Nothing in this graph matches name='/a$', attribute='U': mend or remove"),
    ],
)
def test_a_rule_that_matches_nothing_is_an_error(change: Any, message: str) -> None:
    with pytest.raises(PolicyError) as refused:
        rewrite_graph_def(tower(), ["out"], policy=CPU.with_deny(**change))
    assert message in str(refused.value)


def test_a_rule_for_an_op_that_is_low_already_is_no_error() -> None:
    policy = CPU.with_allow(name="/e$")
    once = rewrite_graph_def(tower(), ["out"], policy=policy).graph_def
    assert rewrite_graph_def(once, ["out"], policy=policy).graph_def == once


def test_a_kind_that_this_graph_does_not_have_is_no_error() -> None:
    assert low_nodes(rewrite_graph_def(tower(), ["out"], policy=CPU.with_deny("Lgamma")).graph_def) == PLAIN


def mixed() -> Any:
    """A graph with every category, in which every level and edit below makes a difference."""

    def build() -> None:
        a = matmul(x(), x("y"), "a")
        r = raw.Relu(features=raw.Tanh(x=a, name="t"), name="r")
        b = matmul(raw.AddV2(x=r, y=a, name="sum"), x("y"), "b")
        e = raw.Exp(x=raw.Sigmoid(x=b, name="s"), name="e")
        c = matmul(raw.Mul(x=raw.Neg(x=e, name="n"), y=b, name="mul"), x("y"), "c")
        out(raw.Lgamma(x=raw.Softmax(logits=c, name="soft"), name="l"))

    return graph_of(build)


ENVIRONMENTS: list[dict[str, str]] = [
    {},
    {"LEVEL": "TREAT_INFER_AS_DENY"},
    {"LEVEL": "treat_infer_as_deny"},
    {"LEVEL": "TENSOR_CORES_ONLY"},
    {"ALLOWLIST_ADD": "Exp", "DENYLIST_REMOVE": "Exp"},
    {"WHITELIST_ADD": "Exp", "BLACKLIST_REMOVE": "Exp"},
    {"INFERLIST_ADD": "Lgamma"},
    {"GRAYLIST_ADD": "Lgamma", "GRAYLIST_REMOVE": "Tanh,Mul"},
    {"CLEARLIST_REMOVE": "Relu,Neg"},
    {"DENYLIST_ADD": "Tanh", "INFERLIST_REMOVE": "Tanh"},
    {"DENYLIST_ADD": "Lgamma", "LEVEL": "TREAT_INFER_AS_DENY"},
    {"ALLOWLIST_REMOVE": "MatMul", "CLEARLIST_ADD": "MatMul"},
    {"ALLOWLIST_ADD": "Lgamma", "WHITELIST_REMOVE": "Lgamma"},
]


@pytest.mark.parametrize("environment", ENVIRONMENTS, ids=str)
def test_the_environment_means_what_it_means_to_tensorflow(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(PREFIX + name, value)
    graph_def = mixed()
    policy = Policy.from_environment(rules="tf-2.21", strategy="grappler", devices=("CPU",))
    ours = rewrite_graph_def(graph_def, ["out"], policy=policy).graph_def
    assert not differences(graph_def, ours, theirs(graph_def, ["out"], "float16"))


def test_the_environments_differ_in_what_they_do() -> None:
    results = set()
    for environment in ENVIRONMENTS:
        values = {PREFIX + name: value for name, value in environment.items()}
        policy = Policy.from_environment(values, rules="tf-2.21", strategy="grappler", devices=("CPU",))
        results.add(frozenset(low_nodes(rewrite_graph_def(mixed(), ["out"], policy=policy).graph_def)))
    assert len(results) == 8


def test_tensor_cores_only_leaves_no_list_to_overlap_with(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("LEVEL", "TENSOR_CORES_ONLY"), ("ALLOWLIST_ADD", "Exp")):
        monkeypatch.setenv(PREFIX + name, value)
    graph_def = mixed()
    ours = rewrite_graph_def(
        graph_def, ["out"], policy=Policy.from_environment(rules="tf-2.21", strategy="grappler", devices=("CPU",))
    )
    assert not differences(graph_def, ours.graph_def, theirs(graph_def, ["out"], "float16"))
