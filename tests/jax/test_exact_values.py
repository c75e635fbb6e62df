"""Constants that 16 bits cannot hold never become 0 or Inf, digits that decide are kept, and state stays float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from tests.jax.compositions import V, W, X
from tests.jax.products import equations

import mixdown.jax as mixed
from mixdown import Policy
from mixdown.jax.explaining import explain

HALF = Policy(rules="jax", low="float16", devices="all")
BRAIN = Policy(rules="jax", low="bfloat16", devices="all")

Planted = tuple[Policy, Callable[[Any], Any]]
PLANTED: dict[str, Planted] = {
    "mask": (HALF, lambda y: jax.nn.softmax(jnp.where(y > 0.3, -1e9, y))),
    "mask of a dtype's least": (BRAIN, lambda y: jax.nn.softmax(jnp.where(y > 0.3, jnp.finfo(jnp.float32).min, y))),
    "added mask": (HALF, lambda y: jax.nn.softmax(y + jnp.where(y > 0.3, -1e9, 0.0))),
    "epsilon in a quotient": (HALF, lambda y: y / (jnp.abs(y) + 1e-12)),
    "epsilon in a norm": (HALF, lambda y: y * lax.rsqrt(jnp.mean(y * y, -1, keepdims=True) + 1e-8)),
    "epsilon in a root": (HALF, lambda y: jnp.sqrt(jax.nn.relu(y) + 1e-10)),
    "largest number": (HALF, lambda y: jnp.minimum(y, 3.4e38)),
    "clipped from below": (HALF, lambda y: jnp.maximum(y, 1e-9)),
    "clamped": (HALF, lambda y: jnp.clip(y, 1e-7, 1 - 1e-7)),
    "large factor": (HALF, lambda y: y * 1e6 * 1e-6),
    "small factor": (HALF, lambda y: y * 1e-9 * 1e9),
    "large divisor": (HALF, lambda y: y / 131072.0 * 131072.0),
    "small divisor": (HALF, lambda y: y / 1e-8 * 1e-8),
    "subtracted": (HALF, lambda y: jnp.tanh((y + 70000.0) - 70000.0)),
    "array of large numbers": (HALF, lambda y: y * jnp.full((16,), 1e5) / 1e5),
    "array of small numbers": (HALF, lambda y: y * np.full((16,), 1e-8, np.float32) * 1e8),
    "through a call": (HALF, lambda y: jax.jit(lambda y, c: y * c)(y, 1e-9) * 1e9),
    "through a scan": (HALF, lambda y: lax.scan(lambda c, _: (c + 1e-12, c * 1e-9), y, None, length=2)[1] * 1e9),
    "through a branch": (HALF, lambda y: lax.cond(y[0, 0] > 9, lambda: y, lambda: y * 1e-9) * 1e9),
    "through a broadcast": (HALF, lambda y: jnp.broadcast_to(jnp.float32(1e-9), y.shape) * y * 1e9),
    "padded with": (HALF, lambda y: jax.nn.softmax(jnp.pad(y, ((0, 0), (0, 4)), constant_values=-1e30))),
    "chosen by": (BRAIN, lambda y: jnp.where(y > 0.3, jnp.finfo(jnp.float32).max, 1.0) * jnp.float32(2e-38) + y),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_constant_becomes_neither_0_nor_inf(name: str) -> None:
    policy, function = PLANTED[name]

    def run(w: Any, x: Any) -> Any:
        return function(x @ w) @ jnp.ones((function(x @ w).shape[-1], 4))

    made = mixed.rewritten_jaxpr(run, W, X, policy=policy)
    held = [
        (equation.primitive.name, float(value), str(atom.aval.dtype))
        for equation in equations(made.jaxpr)
        for atom in equation.invars
        if hasattr(atom, "val") and str(atom.aval.dtype) in ("float16", "bfloat16")
        for value in np.asarray(atom.val, np.float64).ravel()
    ]
    assert [each for each in held if np.isinf(each[1]) and each[0] not in ("max", "reduce_max", "pad")] == []
    got, want = jax.jit(mixed.rewrite(run, policy))(W, X), run(W, X)
    assert bool(jnp.isfinite(got).all())
    assert float(jnp.max(jnp.abs(got - want))) <= 0.03 * float(jnp.max(jnp.abs(want))) + 1e-3


def test_the_reason_names_the_constant() -> None:
    report = explain(lambda w, x: jnp.where(x @ w > 0, -1e9, x @ w) @ V, W, X, policy=HALF)
    (choice,) = [op for op in report.graphs[0].ops if op.kind == "select_n"]
    assert "it reads the constant -1e+09, which float16 turns into -Inf" in choice.sites[0].reason


def test_the_gradient_of_a_bias_is_read_as_products_round_it_behind_a_mean_of_many() -> None:
    def step(w: Any, b: Any, x: Any) -> Any:
        return jax.grad(lambda w, b: jnp.mean((x @ w + b) ** 2), (0, 1))(w, b)

    arguments = jnp.ones((64, 256)), jnp.zeros(256), jnp.ones((512, 64))  # a mean of more than float16's largest number
    made = mixed.rewritten_jaxpr(step, *arguments, policy=HALF)
    total, *_ = [each for each in equations(made.jaxpr) if each.primitive.name == "reduce_sum"]
    assert str(total.invars[0].aval.dtype) == "float16"


def test_gelus_in_float16_and_their_gradients_survive_cubes_that_overflow() -> None:
    def network(w: Any, x: Any) -> Any:
        for _ in range(4):
            x = jax.nn.gelu(x @ w)
        return jnp.sum(x @ w / 64)

    w, x = jnp.eye(16), jnp.linspace(-60, 60, 16 * 16).reshape(16, 16)  # the cube of 41 is Inf in float16
    made = mixed.rewritten_jaxpr(network, w, x, policy=HALF)
    cubes = [each for each in equations(made.jaxpr) if each.primitive.name == "integer_pow"]
    assert [str(cube.invars[0].aval.dtype) for cube in cubes] == ["float32"] * 4
    got, want = (jax.jit(jax.grad(each))(w, x) for each in (mixed.rewrite(network, HALF), network))
    assert float(jnp.max(jnp.abs(got - want))) <= 0.01 * float(jnp.max(jnp.abs(want)))


def test_positions_are_whole_numbers() -> None:
    def rotary(w: Any, x: Any) -> Any:
        angles = jnp.arange(4096.0)[:, None] * 10000.0 ** (-jnp.arange(8.0) / 8)
        return jnp.sin(angles[-8:]) @ (x @ w)[:8]

    got, want = jax.jit(mixed.rewrite(rotary, BRAIN))(W, X), rotary(W, X)
    assert float(jnp.linalg.norm(got - want) / jnp.linalg.norm(want)) < 0.02


LOOPS: dict[str, Callable[[Any, Any], Any]] = {
    "weights in a scan": lambda w, xs: lax.scan(lambda w, x: (w - 1e-3 * (x.T @ jnp.tanh(x @ w)), None), w, xs)[0],
    "weights and moments": lambda w, xs: lax.scan(
        lambda s, x: ((s[0] - 1e-3 * s[1], 0.9 * s[1] + x.T @ jnp.tanh(x @ s[0])), None), (w, jnp.zeros_like(w)), xs
    )[0],
    "weights in a jitted scan in a scan": lambda w, xs: lax.scan(
        lambda w, x: (
            jax.jit(lambda w: lax.scan(lambda w, _: (w - 1e-3 * (x.T @ jnp.tanh(x @ w)), None), w, None, length=2)[0])(
                w
            ),
            None,
        ),
        w,
        xs,
    )[0],
    "weights in a while": lambda w, xs: lax.while_loop(
        lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] - 1e-3 * (xs[0].T @ jnp.tanh(xs[0] @ s[1]))), (0, w)
    )[1],
    "sums": lambda w, xs: lax.scan(lambda s, x: (s + jnp.tanh(x @ w), None), jnp.zeros((8, 16)), xs)[0],
}


@pytest.mark.parametrize("policy", [HALF, BRAIN], ids=lambda policy: policy.low)
@pytest.mark.parametrize("name", LOOPS)
def test_state_that_a_loop_carries_is_never_16_bits(name: str, policy: Policy) -> None:
    made = mixed.rewritten_jaxpr(LOOPS[name], W, jnp.stack([X] * 3), policy=policy)
    loops = [each for each in equations(made.jaxpr) if each.primitive.name in ("scan", "while")]
    assert loops
    assert {str(v.aval.dtype) for loop in loops for v in loop.outvars} <= {"float32", "int32"}
    dots = [each for each in equations(made.jaxpr) if each.primitive.name == "dot_general"]
    assert {str(dot.invars[0].aval.dtype) for dot in dots} == {policy.low}


def test_what_a_recurrent_layer_hands_on_is_16_bits() -> None:
    made = mixed.rewritten_jaxpr(
        lambda w, xs: lax.scan(lambda h, x: (jnp.tanh((h + x) @ w), None), jnp.zeros((8, 16)), xs)[0] @ V,
        W,
        jnp.stack([X] * 3),
        policy=BRAIN,
    )
    (loop,) = [each for each in equations(made.jaxpr) if each.primitive.name == "scan"]
    assert str(loop.outvars[0].aval.dtype) == "bfloat16"
