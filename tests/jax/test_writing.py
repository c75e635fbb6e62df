"""How a plan is written onto a jaxpr: what does not change is taken over, and JAX itself accepts the rest."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax._src.core import check_jaxpr
from tests.jax.compositions import CASES, V, W, X

import mixdown.jax as mixed
from mixdown import Policy
from mixdown.jax import private

POLICY = Policy(rules="jax", low="bfloat16", devices="all")


@pytest.mark.parametrize("name", CASES)
def test_jax_finds_no_fault_with_what_is_written(name: str) -> None:
    case = CASES[name](lambda function: mixed.rewrite(function, POLICY))
    check_jaxpr(jax.make_jaxpr(case.function)(*case.arguments).jaxpr)


@jax.jit
def _long_sum(x: Any) -> Any:
    return lax.cumsum(jnp.exp(jnp.log1p(jnp.expm1(jnp.cosh(x)))))


def test_a_jitted_function_that_stays_float32_is_still_shared_by_its_callers() -> None:
    def step(w: Any, x: Any) -> Any:
        return _long_sum(x[0]), _long_sum(x[1]), x @ w

    closed = mixed.rewritten_jaxpr(step, W, X, policy=POLICY)
    first, second = (each.params["jaxpr"] for each in closed.eqns if each.params.get("name") == "_long_sum")
    assert first is second


@jax.jit
def _leaky(x: Any) -> Any:
    with jax.named_scope("leaky"):
        return lax.max(x, x * 0.5)


def test_one_jitted_helper_may_be_written_in_line_twice() -> None:
    closed = mixed.rewritten_jaxpr(lambda w, v, x: _leaky(_leaky(x @ w) @ v), W, V, X, policy=POLICY)
    made = [variable for equation in closed.eqns for variable in equation.outvars]
    assert [str(each.primitive) for each in closed.eqns].count("max") == 2
    assert len(made) == len(set(made))


def test_scopes_and_lines_of_the_program_are_kept_also_in_line() -> None:
    def layer(w: Any, x: Any) -> Any:
        with jax.named_scope("layer"):
            return _leaky(x @ w)

    equations = mixed.rewritten_jaxpr(layer, W, X, policy=POLICY).eqns
    scopes = {str(each.primitive): private.scope_of(each) for each in equations}
    assert (scopes["dot_general"], scopes["max"]) == ("layer", "layer/leaky")
    assert all("test_writing.py" in private.line_of([each.source_info]) for each in equations)


def test_a_negative_zero_keeps_its_sign_in_16_bits() -> None:
    def step(w: Any, x: Any) -> Any:
        y = x @ w
        return jnp.where(x[:, :1] > 9, y, -0.0) @ w.T, jnp.where(x[:, :1] > 9, y, 0.0) @ w.T

    closed = mixed.rewritten_jaxpr(step, W, X, policy=POLICY)
    written = {str(float(atom.val)) for each in closed.eqns for atom in each.invars if hasattr(atom, "val")}
    assert written == {"-0.0", "0.0", "9.0"}


def test_types_of_results_are_found_without_private_names_too() -> None:
    (product,) = jax.make_jaxpr(lambda x, w: x @ w)(X, W).eqns
    (halves,) = jax.make_jaxpr(lambda x: lax.optimization_barrier((x, x)))(X).eqns
    for equation in (product, halves):
        params = {**equation.params, **({"preferred_element_type": jnp.bfloat16.dtype} if equation is product else {})}
        low = [atom.aval.update(dtype=jnp.bfloat16.dtype) for atom in equation.invars]
        primitive = SimpleNamespace(bind=equation.primitive.bind, get_bind_params=equation.primitive.get_bind_params)
        bare = SimpleNamespace(primitive=primitive, ctx=equation.ctx)
        found = private.result_types(equation, low, params)
        assert [aval.dtype for aval in found] == [jnp.bfloat16.dtype] * len(equation.outvars)
        assert list(found) == list(private.result_types(bare, low, params))
