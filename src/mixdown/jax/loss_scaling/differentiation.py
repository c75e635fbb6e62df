"""`value_and_grad`: `jax.value_and_grad` of a scaled loss."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import jax

from mixdown.jax.loss_scaling.loss_scale import loss_scale_in


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
