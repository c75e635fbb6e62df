"""Mixed precision composes with JAX: every case of `compositions`, as a function and with the whole process enabled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.jax.compositions import CASES, Case, V, W, X
from tests.jax.products import products_of

import mixdown.jax as mixed
from mixdown import Policy

POLICY = Policy(rules="jax", low="bfloat16", devices="all")


@pytest.fixture
def enabled() -> Iterator[None]:
    mixed.enable(POLICY)
    yield
    if mixed.lowering.in_force().value is not None:
        mixed.disable()


def difference(got: Any, want: Any) -> float:
    """The relative error of all results together."""
    flat = [np.concatenate([np.asarray(leaf, np.float64).ravel() for leaf in jax.tree.leaves(t)]) for t in (got, want)]
    return float(np.linalg.norm(flat[0] - flat[1])) / max(float(np.linalg.norm(flat[1])), 1e-30)


def check(got: Any, want: Any, tolerance: float) -> None:
    assert jax.tree.structure(got) == jax.tree.structure(want)
    types = [[(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(jax.tree.map(jnp.asarray, t))] for t in (got, want)]
    assert types[0] == types[1]
    assert difference(got, want) <= tolerance


def same_bits(one: Any, other: Any) -> bool:
    return all(
        np.array_equal(np.asarray(a), np.asarray(b), equal_nan=True)
        for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    )


@pytest.mark.parametrize("name", CASES)
def test_a_rewritten_function_computes_the_same_in_16_bits(name: str) -> None:
    made = []

    def wrap(function: Any) -> Any:
        made.append(mixed.rewrite(function, POLICY))
        return made[-1]

    plain, mine = CASES[name](lambda function: function), CASES[name](wrap)
    check(jax.jit(mine.function)(*mine.arguments), jax.jit(plain.function)(*plain.arguments), plain.tolerance)
    closed = jax.make_jaxpr(mine.function)(*mine.arguments)
    assert bool(products_of(closed).get("bfloat16")) is mine.products, products_of(closed)


@pytest.mark.parametrize("name", CASES)
def test_an_enabled_process_computes_the_same_and_is_itself_again_when_disabled(name: str, enabled: None) -> None:  # noqa: ARG001 - a fixture
    mixed.disable()
    case: Case = CASES[name](lambda function: function)
    function = jax.jit(case.function)
    before = function(*case.arguments)
    mixed.enable(POLICY)
    count = len(mixed.lowering.seen)
    check(function(*case.arguments), before, case.tolerance)
    (lowered,) = list(mixed.lowering.seen)[count:]
    assert lowered.program is not None, lowered.reason
    found = products_of(lowered.program.closed(differentiable=False))
    assert bool(found.get("bfloat16")) is case.products, found
    mixed.disable()
    assert same_bits(function(*case.arguments), before)
    assert len(mixed.lowering.seen) == count + 1


def test_a_rewritten_function_runs_without_jit() -> None:
    plain, mine = CASES["call"](lambda function: function), CASES["call"](lambda f: mixed.rewrite(f, POLICY))
    check(mine.function(*mine.arguments), plain.function(*plain.arguments), plain.tolerance)


def test_donated_arguments_are_donated() -> None:
    step = jax.jit(lambda w, x: (w - 0.1 * (x.T @ (x @ w)), jnp.sum(x @ w)), donate_argnums=0)
    given = W + 0
    found = mixed.rewrite(step, POLICY)(given, X)
    assert given.is_deleted()
    check(found, step(W + 0, X), 0.03)


def test_one_trace_and_one_plan_for_each_signature() -> None:
    traces = []

    def function(w: Any, x: Any, mode: str) -> Any:
        traces.append(mode)
        return x @ w if mode == "one" else x @ w @ V

    mine: Any = mixed.rewrite(function, POLICY)
    for _ in range(3):
        for mode in ("one", "two"):
            mine(W, X, mode)
    mine(W, X[:4], "one")
    assert traces == ["one", "two", "one"]
    assert len(mine.programs()) == 3
