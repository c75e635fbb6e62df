"""`LossScale` and `value_and_grad` in a loop without optax, what they report, and that what is saved comes back."""

import pickle
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
import pytest
from flax import nnx

import mixdown.jax
from mixdown.errors import LossScaleError, LossScaleWarning
from mixdown.jax.loss_scaling import LossScale, all_finite, scaled, value_and_grad
from mixdown.scaling import Law
from mixdown.scaling.step_counters import KEPT

GOOD, BAD = {"w": jnp.ones(2)}, {"w": jnp.array([jnp.nan, 1.0])}


def after(scale: LossScale, *gradients: Any) -> LossScale:
    step = jax.jit(lambda scale, gradients: scale.after(gradients)[0])
    for each in gradients:
        scale = step(scale, each)
    return scale


@pytest.mark.parametrize(
    ("tree", "finite"),
    [
        ({"a": jnp.ones(3), "b": [jnp.zeros(2, jnp.float16)]}, True),
        ({"a": jnp.ones(3), "b": [jnp.array([0, jnp.inf], jnp.float16)]}, False),
        ({"a": jnp.array(-jnp.inf, jnp.bfloat16)}, False),
        ({"a": jnp.array(complex("nan"))}, False),
        ({"a": jnp.arange(3), "b": None, "key": jax.random.key(0)}, True),
        ({}, True),
    ],
)
def test_all_finite_looks_at_every_float(*, tree: Any, finite: bool) -> None:
    assert bool(all_finite(tree)) is finite
    assert bool(jax.jit(all_finite)(tree)) is finite


def test_a_loop_of_ones_own_scales_unscales_and_skips() -> None:
    @jax.jit
    def step(params: Any, scale: LossScale, x: Any) -> Any:
        loss, gradients = value_and_grad(lambda p: (p["w"] * x).sum(), scale)(params)
        scale, finite = scale.after(gradients)
        new = jax.tree.map(lambda p, g: jnp.where(finite, p - 0.5 * g, p), params, gradients)
        return new, scale, loss, gradients

    params = {"w": jnp.ones(2)}
    scale = LossScale.start(Law(initial=8.0, increment_period=1), params)
    params, scale, loss, gradients = step(params, scale, jnp.array([1.0, 2.0]))
    assert (float(loss), gradients["w"].tolist(), params["w"].tolist()) == (3.0, [1.0, 2.0], [0.5, 0.0])
    kept, scale, *_ = step(params, scale, jnp.array([jnp.inf, 2.0]))
    assert kept["w"].tolist() == [0.5, 0.0]
    assert scale.record().timeline == ((0, 8.0), (1, 16.0), (2, 8.0))


def test_the_loss_that_is_differentiated_is_scaled() -> None:
    def loss(w: Any) -> Any:
        return (w.astype(jnp.float16) * jnp.float16(2.0**-20)).astype(jnp.float32) * 2.0**-10  # 2**-30 in the end

    assert float(jax.grad(loss)(jnp.float32(1.0))) == 0.0  # vanished in float16
    value, gradient = value_and_grad(loss, LossScale.start(2.0**15))(jnp.float32(1.0))
    assert (float(value), float(gradient)) == (2.0**-30, 2.0**-30)


def test_aux_argnums_and_keywords_go_through() -> None:
    def loss(a: Any, b: Any, *, twice: bool) -> Any:
        return a * b * (2 if twice else 1), {"aux": b}

    call = value_and_grad(loss, LossScale.start(4.0), has_aux=True, argnums=(0, 1))
    (value, aux), gradients = call(jnp.float32(3.0), jnp.float32(5.0), twice=True)
    assert (float(value), float(aux["aux"]), [float(each) for each in gradients]) == (30.0, 5.0, [10.0, 6.0])


def test_a_16_bit_loss_is_scaled_in_float32() -> None:
    scale = LossScale.start(2.0**20)
    assert float(scale.scale_loss(jnp.float16(2.0))) == 2.0**21


def test_nnx_and_equinox_differentiate_in_their_own_way() -> None:
    model, scale = nnx.Linear(2, 1, use_bias=False, rngs=nnx.Rngs(0)), LossScale.start(64.0)
    call = value_and_grad(lambda m: m(jnp.ones([1, 2])).sum(), scale, differentiate=nnx.value_and_grad)
    assert np.allclose(call(model)[1]["kernel"][...], 1.0)
    layer = eqx.nn.Linear(2, 1, use_bias=False, key=jax.random.key(0))
    call = value_and_grad(lambda m: m(jnp.ones(2)).sum(), scale, differentiate=eqx.filter_value_and_grad)
    assert np.allclose(call(layer)[1].weight, 1.0)


def test_the_nnx_optimizer_holds_it() -> None:
    model = nnx.Linear(2, 1, use_bias=False, rngs=nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, scaled(optax.sgd(1.0), 64.0), wrt=nnx.Param)

    @nnx.jit
    def step(model: Any, optimizer: Any, x: Any) -> Any:
        call = value_and_grad(lambda m: m(x).sum(), optimizer.opt_state, differentiate=nnx.value_and_grad)
        loss, gradients = call(model)
        optimizer.update(model, gradients)
        return loss

    before = np.asarray(model.kernel[...])
    step(model, optimizer, jnp.ones([1, 2]))
    assert np.allclose(model.kernel[...], before - 1.0)
    step(model, optimizer, jnp.array([[jnp.inf, 1.0]]))
    assert np.allclose(model.kernel[...], before - 1.0)
    assert optimizer.opt_state.loss_scale.record().skipped_steps == 1


def test_counts_are_python_numbers_outside_jit_and_traced_inside() -> None:
    scale = after(LossScale.start(), BAD)
    assert (scale.steps, scale.skips_in_a_row, scale.last_skipped_step) == (1, 1, 0)
    assert LossScale.start().last_skipped_step is None
    assert int(jax.jit(lambda scale: scale.steps + scale.last_skipped_step)(scale)) == 1


def test_the_report_has_the_rows_that_tensorflow_has() -> None:
    scale = after(LossScale.start(Law(initial=8.0), {"w": jnp.ones(2)}), GOOD, BAD, GOOD)
    (found,) = [each for each in mixdown.jax.report(mine={"inside": [scale]}).scalers if each.name == "mine"]
    assert (found.loss_scale, found.steps, found.skipped_steps) == (4.0, 3, 1)
    assert found.timeline == ((0, 8.0), (2, 4.0))
    assert [(skip.step, skip.variables) for skip in found.skips] == [(1, (("w", "NaN"),))]


def test_the_report_says_what_it_leaves_out() -> None:
    scale = jax.jit(lambda s: jax.lax.fori_loop(0, KEPT + 9, lambda _, s: s.after(BAD)[0], s))(LossScale.start())
    assert "sgd skipped 265 steps, of which the latest 256 are listed." in mixdown.jax.report(sgd=scale).notes
    with pytest.raises(ValueError, match="One LossScale is needed, got 0"):
        mixdown.jax.report(sgd=optax.sgd(0.1).init(GOOD))


def test_the_log_is_a_ring_and_the_counts_go_on() -> None:
    scale = jax.jit(lambda s: jax.lax.fori_loop(0, KEPT + 9, lambda _, s: s.after(BAD)[0], s))(LossScale.start())
    record = scale.record()
    assert (record.skipped_steps, len(record.skips)) == (KEPT + 9, KEPT)
    assert [each.step for each in record.skips] == list(range(9, KEPT + 9))
    assert record.skips[0].offenders == [("variable 0", "NaN")]  # started without parameters, so without names


def test_at_most_eight_offenders_are_logged_in_their_order() -> None:
    tree = {f"p{at:02}": jnp.float32(jnp.nan if at % 2 else 0.0) for at in range(40)}
    record = after(LossScale.start("dynamic", tree), tree).record()
    assert [name for name, _ in record.offending_variables] == [f"p{at:02}" for at in range(1, 16, 2)]


def test_many_skips_in_a_row_raise_at_a_limit_or_warn() -> None:
    scale = after(LossScale.start("dynamic", GOOD), *[BAD] * 3)
    with pytest.raises(LossScaleError, match=r"3 steps in a row were skipped .*: w \(NaN\)\. That is skip_limit=3"):
        scale.check_skips(skip_limit=3)
    scale.check_skips(skip_limit=4)
    scale.check_skips()
    with pytest.warns(LossScaleWarning, match="50 steps in a row were skipped"):
        after(scale, *[BAD] * 47).check_skips()


def trained() -> tuple[Any, Any]:
    tx = scaled(optax.adam(1e-2), Law(initial=64.0, increment_period=2, tolerance=2))
    state = tx.init(GOOD)
    for each in (GOOD, BAD, GOOD, BAD):
        _, state = jax.jit(tx.update)(each, state, GOOD)
    return tx, state


def assert_goes_on_alike(tx: Any, one: Any, other: Any) -> None:
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for each in (GOOD, BAD, BAD, GOOD):
        (updates, one), (also, other) = (jax.jit(tx.update)(each, state, GOOD) for state in (one, other))
        pairs = zip(jax.tree.leaves((updates, one)), jax.tree.leaves((also, other)), strict=True)
        assert all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)
    assert one.loss_scale.record() == other.loss_scale.record()


def test_a_pickled_state_comes_back() -> None:
    tx, state = trained()
    assert_goes_on_alike(tx, state, pickle.loads(pickle.dumps(state)))  # noqa: S301 - our own


def test_orbax_saves_and_restores_the_state(tmp_path: Path) -> None:
    tx, state = trained()
    with ocp.StandardCheckpointer() as saver:
        saver.save(tmp_path / "state", state)
    with ocp.StandardCheckpointer() as saver:
        restored = saver.restore(tmp_path / "state", jax.eval_shape(lambda: tx.init(GOOD)))
    assert restored.loss_scale.record().skipped_steps == 2
    assert_goes_on_alike(tx, state, restored)
