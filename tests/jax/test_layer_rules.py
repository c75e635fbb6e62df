"""Rules that name layers, with flax and equinox: whose ops `layer=` finds, and that a rule that finds nothing says so.

Keras on JAX has its own: tests/keras3/fit_on_jax.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
import pytest
from flax import linen, nnx

import mixdown.jax as mixed
from mixdown import MixdownWarning, Policy
from mixdown.errors import PolicyError

POLICY = Policy(rules="jax", low="bfloat16", devices="all")
X, Y = jnp.ones((8, 16)), jnp.arange(8) % 4


class Linen(linen.Module):
    @linen.compact
    def __call__(self, x: Any) -> Any:
        words = linen.Embed(16, 16, name="words")
        x = linen.relu(linen.Dense(16)(x))
        x = linen.remat(linen.Dense)(16, name="again")(linen.tanh(linen.Dense(16)(x)))
        return linen.Dense(4, name="head")(words.attend(x))


PARAMETERS = jax.eval_shape(Linen().init, jax.random.key(0), X)


class Equinox(eqx.Module):
    body: eqx.nn.Linear
    head: eqx.nn.Linear
    scoped: bool = eqx.field(static=True)

    def __call__(self, x: Any) -> Any:
        x = jnp.tanh(self.body(x))
        with jax.named_scope("head") if self.scoped else jax.named_scope("other"):
            return self.head(x)


class Nnx(nnx.Module):
    def __init__(self, *, scoped: bool) -> None:
        self.body, self.head = nnx.Linear(16, 16, rngs=nnx.Rngs(0)), nnx.Linear(16, 4, rngs=nnx.Rngs(1))
        self.scoped = scoped

    def __call__(self, x: Any) -> Any:
        x = nnx.relu(self.body(x))
        if not self.scoped:
            return self.head(x)
        with jax.named_scope("head"):
            return self.head(x)


HEAD = eqx.nn.Linear(16, 4, key=jax.random.key(1))
EQUINOX = {scoped: Equinox(eqx.nn.Linear(16, 16, key=jax.random.key(0)), HEAD, scoped) for scoped in (True, False)}
NNX = {scoped: Nnx(scoped=scoped) for scoped in (True, False)}


def loss_of(logits: Any) -> Any:
    return optax.softmax_cross_entropy_with_integer_labels(logits, Y).mean()


def linen_step(*, scoped: bool = True) -> None:  # noqa: ARG001 - linen names its layers itself
    @jax.jit
    def train_step(p: Any, x: Any) -> Any:
        return jax.tree.map(lambda p, g: p - g, p, jax.grad(lambda p: loss_of(Linen().apply(p, x)))(p))

    train_step.lower(PARAMETERS, X)


def equinox_step(*, scoped: bool = True) -> None:
    @eqx.filter_jit
    def train_step(model: Any, x: Any) -> Any:
        return eqx.filter_grad(lambda model: loss_of(jax.vmap(model)(x)))(model)

    train_step.lower(EQUINOX[scoped], X)


def nnx_step(*, scoped: bool = True) -> None:
    @nnx.jit
    def train_step(model: Any, x: Any) -> Any:
        return nnx.grad(lambda model: loss_of(model(x)))(model)

    train_step.lower(NNX[scoped], X)


STEPS: list[Callable[..., None]] = [linen_step, equinox_step, nnx_step]


def said(run: Callable[..., None], policy: Policy, **options: bool) -> list[warnings.WarningMessage]:
    """The warnings of mixdown while a step is lowered."""
    with warnings.catch_warnings(record=True) as given, mixed.rewriting(policy):
        warnings.simplefilter("always")
        run(**options)
    return [each for each in given if issubclass(each.category, MixdownWarning)]


def products(policy: Policy) -> dict[str, str]:
    """The dtypes of all products that were lowered under a policy."""
    found = [graph for graph in mixed.report().graphs if graph.policy == policy.to_dict()]
    return {op.name: op.sites[0].dtype for graph in found for op in graph.ops if op.kind == "dot_general"}


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_a_layer_is_kept_with_its_gradients(step: Callable[..., None]) -> None:
    policy = POLICY.with_keep(layer="head").with_custom(step.__name__)  # equal policies share what they saw
    assert said(step, policy) == []
    found = products(policy)
    kept = [name for name, dtype in found.items() if dtype == "float32"]
    assert kept == [name for name in found if "/head/" in f"/{name}"]
    assert sorted({name.startswith("gradients/") for name in kept}) == [False, True]


@pytest.mark.parametrize(
    ("layer", "scopes"),
    [
        ("Dense_1", {"Linen/Dense_1"}),
        ("Linen/Dense_0", {"Linen/Dense_0"}),
        ("words", {"Linen/words.attend"}),  # another method than __call__
        ("again", {"Linen/again"}),  # recomputed in the backward pass
    ],
)
def test_names_that_linen_gives_mean_one_layer_each(layer: str, scopes: set[str]) -> None:
    policy = POLICY.with_keep(layer=layer)
    assert said(linen_step, policy) == []
    kept = [name for name, dtype in products(policy).items() if dtype == "float32"]
    assert {name.removeprefix("gradients/").rpartition("/")[0] for name in kept} == scopes
    assert any(name.startswith("gradients/") for name in kept)


def test_a_linen_module_with_a_name_stands_for_its_layer() -> None:
    assert POLICY.with_keep(layer=linen.Dense(4, name="head")) == POLICY.with_keep(layer="head")


def test_a_layer_without_a_name_is_refused_in_one_line() -> None:
    with pytest.raises(PolicyError, match=r"^layer is a Keras layer or its name, not a Linear without a name\.$"):
        POLICY.with_keep(layer=NNX[True].head)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_a_rule_that_matches_nothing_is_told_once_with_the_nearest_layer(step: Callable[..., None]) -> None:
    policy = POLICY.with_keep(layer="haed").with_custom(step.__name__)
    (warning,) = said(step, policy)
    assert str(warning.message) == (
        "The rule layer='haed' of the policy has no effect in train_step: in a whole training step it matched no "
        "float32 op. A layer of a similar name: head. Write layer='head'."
    )
    assert warning.filename == __file__
    assert said(step, policy) == []


@pytest.mark.parametrize(
    ("step", "known"),
    [(equinox_step, "eqx.nn.Linear, other, ..."), (nnx_step, "not known, ...")],
    ids=["equinox", "nnx"],
)
def test_layers_without_a_scope_are_told_how_to_get_one(step: Callable[..., None], known: str) -> None:
    (warning,) = said(step, POLICY.with_keep(layer="head").with_custom(f"unscoped_{step.__name__}"), scoped=False)
    assert str(warning.message).endswith(
        f"The layers are {known} JAX knows a layer by its scope: call the layer inside `with jax.named_scope('head'):`."
    )


def test_a_number_makes_another_layer() -> None:
    (warning,) = said(linen_step, POLICY.with_keep(layer="Dense"))
    assert "Layers of a similar name: Dense_" in str(warning.message)


@pytest.mark.parametrize("selector", [{"scope": "haed"}, {"name": "^haed/"}])
def test_rules_by_scope_and_name_are_told_too(selector: dict[str, str]) -> None:
    (warning,) = said(linen_step, POLICY.with_keep(**selector))
    assert str(warning.message).endswith("A layer of a similar name: head. Write layer='head'.")


def test_a_program_without_gradients_is_not_judged() -> None:
    evaluate = jax.jit(Linen().apply)
    assert said(lambda: evaluate.lower(PARAMETERS, X), POLICY.with_keep(layer="haed").with_custom("evaluating")) == []


def test_rewrite_tells_as_well() -> None:
    step = mixed.rewrite(jax.grad(lambda w, x: jnp.sum(jnp.tanh(x @ w))), POLICY.with_keep(layer="haed", scope="x"))
    with pytest.warns(
        MixdownWarning, match="The rule layer='haed', scope='x' of the policy has no effect in <lambda>:"
    ):
        step(jnp.ones((16, 16)), X)
