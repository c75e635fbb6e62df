"""`scaled`: good steps are those of the inner optimizer, bad ones change nothing but the loss scale."""

import importlib.util
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from mixdown.jax.loss_scaling import LossScale, ScaledState, scaled, value_and_grad
from mixdown.scaling import Law

PARAMS = {"kernel": jnp.array([1.0, -0.0, 3.0]), "bias": jnp.ones(2)}
BAD = {"kernel": jnp.array([1.0, jnp.inf, jnp.nan]), "bias": jnp.ones(2)}
SMALL = Law(initial=1024.0, increment_period=3)


def good(scale: float) -> Any:
    return {"kernel": jnp.array([1.0, 2.0, -3.0]) * scale, "bias": jnp.ones(2) * scale}


def same(one: Any, other: Any) -> bool:
    """Whether two trees are the same to the bit."""
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)


@pytest.mark.parametrize(
    "inner", [optax.sgd(0.1, momentum=0.9), optax.adam(1e-2), optax.lamb(1e-2)], ids=["sgd", "adam", "lamb"]
)
def test_a_good_step_is_the_step_of_the_inner_optimizer(inner: Any) -> None:
    tx = scaled(inner, 1024.0)
    updates, state = jax.jit(tx.update)(good(1024.0), tx.init(PARAMS), PARAMS)
    expected, inner_state = jax.jit(inner.update)(good(1.0), inner.init(PARAMS), PARAMS)
    assert same(updates, expected)
    assert same(state.inner_state, inner_state)
    assert (state.loss_scale.steps, state.loss_scale.skipped_steps) == (1, 0)


def test_a_bad_step_changes_no_bit_of_parameters_and_inner_state() -> None:
    tx = scaled(optax.chain(optax.clip_by_global_norm(1.0), optax.adam(optax.linear_schedule(0.1, 0.0, 10))), SMALL)
    state = tx.init(PARAMS)
    _, state = tx.update(good(1024.0), state, PARAMS)
    updates, after = jax.jit(tx.update)(BAD, state, PARAMS)
    assert same(optax.apply_updates(PARAMS, updates), PARAMS)  # the -0.0 included
    assert same(after.inner_state, state.inner_state)
    assert float(after.loss_scale.scale) == 512.0
    assert (after.loss_scale.steps, after.loss_scale.skipped_steps, after.loss_scale.last_skipped_step) == (2, 1, 1)
    assert after.loss_scale.record().offending_variables == [("kernel", "Inf and NaN")]


def test_the_inner_optimizer_does_not_run_on_a_skip() -> None:
    ran: list[int] = []
    spy = optax.GradientTransformation(
        lambda _: (), lambda g, s, _=None: (jax.debug.callback(ran.append, 1), (g, s))[1]
    )
    tx = scaled(spy)
    update, state = jax.jit(tx.update), tx.init(PARAMS)
    for gradients in (BAD, good(1.0), BAD):
        jax.block_until_ready(update(gradients, state, PARAMS))
        jax.effects_barrier()
    assert len(ran) == 1


def test_a_whole_training_runs_in_one_scan_and_is_traced_once() -> None:
    tx, traced = scaled(optax.sgd(0.1), SMALL), []

    def step(carry: Any, x: Any) -> Any:
        traced.append(1)
        params, state = carry
        loss, gradients = value_and_grad(lambda params: (params * x).sum(), state)(params)
        updates, state = tx.update(gradients, state, params)
        return (optax.apply_updates(params, updates), state), (loss, state.loss_scale.scale)

    params = jnp.ones(4)
    batches = jnp.ones([8, 4]).at[2, 1].set(jnp.inf).at[3, 0].set(jnp.nan)
    run = jax.jit(lambda carry: jax.lax.scan(step, carry, batches), donate_argnums=0)
    (params, state), (losses, scales) = run((params, tx.init(params)))
    assert np.asarray(scales).tolist() == [1024, 1024, 512, 256, 256, 256, 512, 512]
    assert np.allclose(params, 1 - 0.1 * 6)
    assert float(losses[0]) == 4.0
    assert state.loss_scale.record().timeline == ((0, 1024.0), (3, 512.0), (4, 256.0), (7, 512.0))
    assert len(traced) == 1


def test_the_state_keeps_its_types_so_that_jit_traces_once() -> None:
    tx, traced = scaled(optax.adam(1e-2)), []

    @jax.jit
    def update(gradients: Any, state: Any) -> Any:
        traced.append(1)
        return tx.update(gradients, state, PARAMS)[1]

    state = tx.init(PARAMS)
    for gradients in (good(1.0), BAD, good(1.0)):
        state = update(gradients, state)
    assert len(traced) == 1


def test_gradients_too_small_for_float16_survive() -> None:
    tx = scaled(optax.sgd(1.0), 2.0**15)
    gradients = {"w": jnp.float16(2.0**-30 * 2.0**15)}  # 2**-30 itself is zero in float16
    updates, _ = tx.update({"w": gradients["w"].astype(jnp.float32)}, tx.init({"w": jnp.ones([])}), None)
    assert float(updates["w"]) == -(2.0**-30)


@pytest.mark.parametrize("scale", [2.0**17, 2.0**120])
def test_16_bit_gradients_are_divided_in_float32(scale: float) -> None:
    tx = scaled(optax.identity(), scale)  # the scale is inf in float16
    params = {"w": jnp.ones(2, jnp.bfloat16 if scale > 2.0**100 else jnp.float16)}
    gradients = {"w": jnp.full(2, scale / 4 if scale > 2.0**100 else 2.0**15, params["w"].dtype)}
    updates, _ = tx.update(gradients, tx.init(params), params)
    assert updates["w"].dtype == params["w"].dtype
    assert updates["w"].tolist() == [0.25, 0.25]


def test_a_fixed_scale_skips_too_but_does_not_move() -> None:
    tx = scaled(optax.sgd(0.1), 64.0)
    _, state = tx.update(BAD, tx.init(PARAMS), PARAMS)
    assert (float(state.loss_scale.scale), state.loss_scale.skipped_steps) == (64.0, 1)


def test_it_goes_into_chains_and_passes_extra_arguments_on() -> None:
    def halved(gradients: Any, state: Any, _: Any = None, *, factor: float) -> Any:
        return jax.tree.map(lambda each: each * factor, gradients), state

    inner = optax.GradientTransformationExtraArgs(lambda _: optax.EmptyState(), halved)
    tx = optax.chain(scaled(inner, 8.0), optax.scale(-1.0))
    updates, state = tx.update({"w": jnp.float32(16.0)}, tx.init({"w": jnp.float32(0.0)}), None, factor=0.5)
    assert float(updates["w"]) == -1.0
    assert value_and_grad(lambda w: w * 3.0, state)(2.0) == (6.0, 24.0)  # found inside the state of the chain


def test_integers_and_missing_gradients_are_left_alone() -> None:
    tx = scaled(optax.identity(), 4.0)
    updates, state = tx.update({"w": jnp.float32(8.0), "n": jnp.int32(7), "none": None}, tx.init({}), None)
    assert (float(updates["w"]), int(updates["n"]), updates["none"]) == (2.0, 7, None)
    assert state.loss_scale.skipped_steps == 0


def test_no_gradients_at_all_are_finite() -> None:
    tx = scaled(optax.identity())
    assert tx.update({}, tx.init({}), None)[1].loss_scale.skipped_steps == 0


MISUSES = [
    (lambda: scaled("adam"), TypeError, "needs an optax.GradientTransformation, got 'adam' of type str. Pass an opt"),
    (
        lambda: scaled(optax.sgd(0.1), "static"),
        ValueError,
        "must be a number, \"dynamic\" or a LossScale, got 'static'",
    ),
    (lambda: scaled(optax.sgd(0.1), 0.5), ValueError, "needs a scale of at least 1, got 0.5"),
    (lambda: scaled(optax.sgd(0.1), None), ValueError, "loss_scale cannot be None. Pass a number, "),
    (lambda: scaled(optax.sgd(0.1), {}), TypeError, "a LossScale, got {} of type dict."),
    (lambda: value_and_grad(abs, optax.sgd(0.1).init(PARAMS)), ValueError, "One LossScale is needed, got 0 in a tuple"),
    (
        lambda: value_and_grad(abs, [LossScale.start()] * 2),
        ValueError,
        "got 2 in a list. Pass mixdown.jax.LossScale.st",
    ),
]


@pytest.mark.parametrize(("misuse", "error", "message"), MISUSES)
def test_misuse_is_refused_with_a_way_out(misuse: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message.replace("(", r"\(")):
        misuse()


def test_without_optax_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        "mixdown.jax.loss_scaling.transformation.find_spec", lambda name: None if name == "optax" else found(name)
    )
    with pytest.raises(ImportError, match=r"^mixdown.jax.scaled needs optax: pip install optax$"):
        scaled(optax.sgd(0.1))


def test_the_state_is_named() -> None:
    state = scaled(optax.sgd(0.1)).init(PARAMS)
    assert isinstance(state, ScaledState)
    assert state.loss_scale.names == ("bias", "kernel")
    assert repr(state.loss_scale).startswith("LossScale(32768.0, steps=0, skipped_steps=0, Law(")
