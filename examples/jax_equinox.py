"""Equinox: mixed precision for one block of a program, and the op behind an overflow, found in one run."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

import mixdown.jax

rng = np.random.default_rng(0)
features = rng.normal(size=(256, 16)).astype("float32")
targets = np.sin(features[:, :1])

policy = mixdown.Policy(low="float16", devices="all")  # the default: bfloat16, on GPUs and TPUs
model = eqx.nn.MLP(16, 1, width_size=64, depth=2, key=jax.random.key(0))
optimizer = mixdown.jax.scaled(optax.adam(1e-2))
state = optimizer.init(eqx.filter(model, eqx.is_array))


def loss_fn(model: eqx.Module, x: jax.Array, y: jax.Array) -> jax.Array:
    """The mean squared error."""
    return jnp.mean((jax.vmap(model)(x) - y) ** 2)


@eqx.filter_jit
def train_step(model, state, x, y):  # noqa: ANN001, ANN201 - pytrees
    """Take one step; it is skipped if gradients are not finite."""
    grad = mixdown.jax.value_and_grad(loss_fn, state, differentiate=eqx.filter_value_and_grad)
    loss, gradients = grad(model, x, y)
    updates, state = optimizer.update(gradients, state, eqx.filter(model, eqx.is_array))
    return eqx.apply_updates(model, updates), state, loss


with mixdown.jax.rewriting(policy):  # float32 before and after the block
    losses = []
    for _ in range(60):
        model, state, loss = train_step(model, state, features, targets)
        losses.append(float(loss))
print(f"loss: {losses[0]:.3f} in the first step, it fell: {losses[-1] < losses[0] / 4}")

arrays, rest = eqx.partition(model, eqx.is_array)
large = eqx.tree_at(lambda tree: tree.layers[1].weight, arrays, replace_fn=lambda weight: weight * 1e5)
print(mixdown.jax.locate(lambda arrays: loss_fn(eqx.combine(arrays, rest), features, targets), large, policy=policy))
