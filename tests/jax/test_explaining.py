"""Reports on JAX programs: a reason for every equation, layers, source lines, the page, and what is not understood."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import optax
import pytest
from benchmarks.jax_models.zoo import MODELS
from flax import linen
from jax import lax
from tests.jax.compositions import V, W, X

import mixdown.jax as mixed
from mixdown import Policy
from mixdown.reports import Report
from mixdown.reports.model import GraphReport

POLICY = Policy(rules="jax", low="bfloat16", devices="all")


class Net(linen.Module):
    @linen.compact
    def __call__(self, x: Any) -> Any:
        x = linen.LayerNorm()(linen.relu(linen.Dense(32)(x)))
        x, _ = lax.scan(lambda h, _: (jnp.tanh(h @ W[:, :16] @ W), None), linen.Dense(16)(x), None, length=3)
        return jax.checkpoint(linen.silu)(x)


def step(state: Any, x: Any, y: Any) -> Any:
    """A training step."""
    parameters, moments = state
    loss, gradient = jax.value_and_grad(
        lambda p: optax.softmax_cross_entropy_with_integer_labels(Net().apply(p, x), y).mean()
    )(parameters)
    updates, moments = optax.adam(1e-3).update(gradient, moments)
    return (optax.apply_updates(parameters, updates), moments), loss


@pytest.fixture(scope="module")
def report() -> Report:
    parameters = Net().init(jax.random.key(0), X)
    return mixed.explain(step, (parameters, optax.adam(1e-3).init(parameters)), X, jnp.arange(8), policy=POLICY)


@pytest.fixture
def graph(report: Report) -> GraphReport:
    return report.graphs[0]


@pytest.mark.parametrize("name", ["BERT", "conv+BN", "LSTM", "GPT-2 remat", "equinox conv", "plain Llama"])
def test_every_equation_has_a_reason_and_almost_every_one_a_line(name: str) -> None:
    model = MODELS[name](None, True)  # noqa: FBT003 - small
    key = jax.random.key(0)
    arguments = jax.eval_shape(model.start, key), *jax.eval_shape(model.batch, key)
    graph = mixed.explain(model.step, *arguments, policy=POLICY).graphs[0]
    made = [op for op in graph.ops if op.kind not in ("argument", "result")]
    assert len(made) > 80
    assert [op.name for op in graph.ops if not all(site.reason for site in op.sites)] == []
    found = [op for op in made if "/benchmarks/jax_models/" in op.source]
    assert len(found) >= 0.95 * len(made), sorted({op.source for op in made} - {op.source for op in found})


def test_layers_are_named_scopes_and_gradients_belong_to_them(graph: GraphReport) -> None:
    layers = graph.by_layer()
    assert {"Net/Dense_0", "Net/Dense_1", "Net/LayerNorm_0"} <= layers.keys()
    backward = [op.name for op in graph.ops if op.name.startswith("gradients/Net/Dense_0/")]
    assert any(name.endswith("dot_general") for name in backward)


def test_it_answers_why_and_becomes_a_page(report: Report, tmp_path: Path) -> None:
    text = report.why("Net/LayerNorm_0/sub")
    assert "is float32: it follows a denied op" in text
    assert f"It was made at {__file__}" in text
    page = report.save(tmp_path / "report.html").read_text("utf-8")
    assert "Net/Dense_0/dot_general" in page
    again = Report.from_json(report.to_json())
    assert again.graphs == report.graphs


def test_what_is_not_understood_stays_float32_and_says_so() -> None:
    def function(w: Any, x: Any) -> Any:
        y = jax.pure_callback(lambda y: y, jax.ShapeDtypeStruct((8, 16), jnp.float32), x @ w)
        return jnp.linalg.qr(y)[0].T @ y @ V

    graph = mixed.explain(function, W, X, policy=POLICY).graphs[0]
    reasons = {op.kind: (op.sites[0].dtype, op.sites[0].reason) for op in graph.ops}
    assert reasons["pure_callback"] == ("float32", "pure_callback is on no list")
    assert reasons["qr"] == ("float32", "qr is on no list")


def test_precision_is_the_users_word() -> None:
    graph = mixed.explain(lambda w, x: jnp.dot(x, w, precision="highest") @ V, W, X, policy=POLICY).graphs[0]
    one, other = [op for op in graph.ops if op.kind == "dot_general"]
    assert (one.sites[0].dtype, one.sites[0].reason) == ("float32", "it asks for precision HIGHEST")
    assert other.sites[0].dtype == "bfloat16"


def test_overrides_by_scope_and_kind_are_kept() -> None:
    policy = POLICY.with_keep(scope="head").with_keep("tanh").with_keep(scope="nowhere")

    def function(w: Any, x: Any) -> Any:
        y = jnp.tanh(x @ w)
        with jax.named_scope("head"):
            return y @ V

    report = mixed.explain(function, W, X, policy=policy)
    dtypes = {op.name: op.sites[0].dtype for op in report.graphs[0].ops}
    assert (dtypes["dot_general"], dtypes["tanh"], dtypes["head/dot_general"]) == ("bfloat16", "float32", "float32")
    assert report.notes == ("The rule scope='nowhere' of the policy matches nothing here.",)


def test_what_was_lowered_is_in_the_report_of_the_process() -> None:
    @jax.jit
    def reported(w: Any, x: Any) -> Any:
        return jnp.tanh(x @ w)

    with mixed.rewriting(POLICY):
        reported(W, X)
    graph = next(each for each in reversed(mixed.report().graphs) if each.name == "reported")
    assert graph.rewritten
    assert [op.name for op in graph.low_ops] == ["dot_general"]
