"""`scaled`, an optax transformation that skips steps that are not finite; `value_and_grad` differentiates its loss."""

from collections.abc import Callable
from functools import wraps
from importlib.util import find_spec
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from mixdown.jax.loss_scaling.loss_scale import AxisName, JaxLossScale, loss_scale_in

NOTHING = -0.0
"""An update that changes no bit of a parameter: -0.0 + 0.0 is 0.0, but x + -0.0 is always x."""


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
            lambda: (jax.tree.map(lambda leaf: jnp.full_like(leaf, NOTHING), updates), state.inner_state),
        )
        return new, ScaledState(moved, inner_state)

    return optax.GradientTransformationExtraArgs(init, update)


def value_and_grad(
    fn: Callable[..., Any],
    loss_scale: Any,
    *,
    has_aux: bool = False,
    differentiate: Callable[..., Any] = jax.value_and_grad,
    **options: Any,
) -> Callable[..., Any]:
    """Like `jax.value_and_grad`, but the loss is scaled before it is differentiated, so that gradients do not vanish.

    Args:
        fn: a function that returns the loss.
        loss_scale: a `LossScale`, or the state of an optimizer that holds one.
        has_aux: whether `fn` returns a pair, of the loss and something else.
        differentiate: what differentiates, such as `nnx.value_and_grad` or `equinox.filter_value_and_grad`.
        options: further arguments for it, such as `argnums`.

    Returns:
        A function of the arguments of `fn` that returns the loss itself and its gradients. With a `LossScale` of your
        own the gradients are unscaled. With the state of a `scaled` transformation they are scaled, as its `update`
        expects them: that divides them by the scale.

    Raises:
        ValueError: there is no `LossScale` in `loss_scale`, or more than one.
    """
    current = loss_scale_in(loss_scale)

    @wraps(fn)
    def scaled_loss(*args: Any, **kwargs: Any) -> tuple[jax.Array, Any]:
        returned = fn(*args, **kwargs)
        loss = returned[0] if has_aux else returned
        return current.scale_loss(loss), returned

    differentiated = differentiate(scaled_loss, has_aux=True, **options)

    @wraps(fn)
    def call(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        (_, returned), gradients = differentiated(*args, **kwargs)
        return returned, gradients if current.held else current.unscale(gradients)

    return call
