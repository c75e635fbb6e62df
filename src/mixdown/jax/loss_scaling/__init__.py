"""Loss scaling in JAX: the machine of `mixdown.scaling` in a pytree, moved inside jit. Gradients in, updates out.

The doors are `scaled`, which wraps an optax transformation, and `value_and_grad`, which differentiates a scaled loss.
`LossScale` is the state of both; a loop without optax moves it itself.
"""

from mixdown.jax.loss_scaling.loss_scale import JaxLossScale, all_finite, loss_scale_in
from mixdown.jax.loss_scaling.transformation import ScaledState, scaled, value_and_grad

LossScale = JaxLossScale

__all__ = ["LossScale", "ScaledState", "all_finite", "loss_scale_in", "scaled", "value_and_grad"]
