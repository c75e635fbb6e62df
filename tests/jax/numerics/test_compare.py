"""`compare`: what a function returns in float32 and rewritten, side by side."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import mixdown.jax
from mixdown.core import Policy
from mixdown.numerics.comparison import Comparison

BFLOAT16 = Policy(low="bfloat16", rules="jax", devices="all")


def step(params: dict[str, Any], x: Any) -> Any:
    def loss(params: dict[str, Any]) -> Any:
        return jnp.mean((jnp.tanh(x @ params["w"]) @ params["v"]) ** 2)

    value, gradients = jax.value_and_grad(loss)(params)
    return {
        "loss": value,
        "new": jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients),
        "steps": 1,
        "all": x > 0,
    }


def arguments() -> tuple[Any, Any]:
    keys = jax.random.split(jax.random.key(0), 3)
    w, v, x = (jax.random.normal(key, [16, 16]) for key in keys)
    return {"w": w, "v": v}, x


def test_every_float_that_is_returned_is_compared_under_its_path() -> None:
    found = mixdown.jax.compare(step, *arguments(), policy=BFLOAT16)
    assert [each.op for each in found.outputs] == ["output['loss']", "output['new']['v']", "output['new']['w']"]
    assert not found.identical
    assert all(0 < each.errors.relative < 0.02 for each in found.outputs)
    assert all(each.dtype == "float32" for each in found.outputs)
    assert Comparison.from_json(found.to_json()) == found


def test_the_errors_are_those_of_the_two_runs() -> None:
    params, x = arguments()
    found = mixdown.jax.compare(step, params, x, policy=BFLOAT16)
    full, mixed = (
        jax.jit(lambda *args, each=each: each(*args)["new"])(params, x)
        for each in (step, mixdown.jax.rewrite(step, BFLOAT16))
    )
    difference = np.abs(np.asarray(full["w"], np.float64) - np.asarray(mixed["w"], np.float64))
    assert found.outputs[2].errors.max_abs == difference.max()


def test_a_policy_that_does_nothing_changes_nothing() -> None:
    found = mixdown.jax.compare(step, *arguments(), policy=BFLOAT16.with_keep("dot_general"))
    assert found.identical
    assert "No difference in 3 outputs" in str(found)


def test_it_compares_with_float32_even_where_mixed_precision_is_enabled() -> None:
    with mixdown.jax.rewriting(BFLOAT16):
        found = mixdown.jax.compare(jax.jit(step), *arguments())
    assert not found.identical
    assert found == mixdown.jax.compare(jax.jit(step), *arguments(), policy=BFLOAT16)
