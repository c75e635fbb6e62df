"""`scaled`: an optax transformation that takes gradients of a scaled loss and skips steps that are not finite."""

from importlib.util import find_spec
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from mixdown.jax.loss_scaling.gradients import AxisName
from mixdown.jax.loss_scaling.loss_scale import JaxLossScale


class ScaledState(NamedTuple):
    """The state of a `scaled` transformation."""

    loss_scale: JaxLossScale
    inner_state: Any  # of the transformation inside; a skipped step leaves it as it was


def scaled(tx: Any, loss_scale: Any = "dynamic", *, axis_name: AxisName = None) -> Any:
    """Wrap an optax transformation: it unscales gradients, and skips every step whose gradients are not finite.

    Compute the gradients with `mixdown.jax.value_and_grad(loss_fn, opt_state)`, or differentiate
    `opt_state.loss_scale.scale_loss(loss)`; then call `update` as always. A skipped step changes neither parameters nor
    the inner state, and so no schedule advances: its updates are zero. It moves the scale, and is counted and logged.

    Args:
        tx: an `optax.GradientTransformation`.
        loss_scale: "dynamic", a number (a fixed scale) or a `mixdown.scaling.Law`.
        axis_name: inside `shard_map` or `pmap`, the mesh axes over which all shards decide together. Under jit over
            sharded arrays none is needed.

    Returns:
        An `optax.GradientTransformationExtraArgs` whose state is a `ScaledState`.

    Raises:
        ImportError: optax is not installed.
        TypeError: `tx` is no transformation, or `loss_scale` is none.
        ValueError: a number is out of range.
    """
    if find_spec("optax") is None:
        raise ImportError("mixdown.jax.scaled needs optax: pip install optax")
    import optax  # noqa: PLC0415 - an optional dependency

    if not isinstance(tx, optax.GradientTransformation):
        raise TypeError(
            f"scaled needs an optax.GradientTransformation, got {tx!r} of type {type(tx).__name__}. "
            "Pass an optimizer such as optax.adam(1e-3)."
        )
    inner, law = optax.with_extra_args_support(tx), JaxLossScale.start(loss_scale).law

    def init(params: Any) -> ScaledState:
        return ScaledState(JaxLossScale.start(law, params, held=True), inner.init(params))

    def update(updates: Any, state: ScaledState, params: Any = None, **extra: Any) -> tuple[Any, ScaledState]:
        moved, finite = state.loss_scale.after(updates, axis_name)
        new, inner_state = lax.cond(
            finite,
            lambda: inner.update(state.loss_scale.unscale(updates), state.inner_state, params, **extra),
            lambda: (_nothing(updates), state.inner_state),
        )
        return new, ScaledState(moved, inner_state)

    return optax.GradientTransformationExtraArgs(init, update)


def _nothing(updates: Any) -> Any:
    """Updates that change no bit of any parameter: -0.0, because -0.0 + 0.0 is 0.0 but x + -0.0 is always x."""
    return jax.tree.map(lambda leaf: jnp.full_like(leaf, -0.0), updates)
