"""Plain JAX and optax in float16: one line enables the rewrite, two scale the loss and skip steps that overflow."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

import mixdown.jax

STEPS, BATCH = 60, 64
rng = np.random.default_rng(0)
features = rng.normal(size=(STEPS, BATCH, 32)).astype("float32")
targets = features @ rng.normal(size=(32, 1)).astype("float32")

mixdown.jax.enable(mixdown.Policy(low="float16", devices="all"))  # the default: bfloat16, on GPUs and TPUs
optimizer = mixdown.jax.scaled(optax.adam(1e-2))  # float16 needs a loss scale


def loss_fn(params: dict[str, jax.Array], x: jax.Array, y: jax.Array) -> jax.Array:
    """Two dense layers, without a dtype anywhere."""
    hidden = jax.nn.relu(x @ params["first"])
    return jnp.mean((hidden @ params["second"] - y) ** 2)


@jax.jit
def train_step(params, state, x, y):  # noqa: ANN001, ANN201 - pytrees
    """Take one step. Gradients of the scaled loss go in, and the step is skipped if they are not finite."""
    loss, gradients = mixdown.jax.value_and_grad(loss_fn, state)(params, x, y)
    updates, state = optimizer.update(gradients, state, params)
    return optax.apply_updates(params, updates), state, loss


params = {
    "first": jnp.asarray(rng.normal(size=(32, 64)) * 0.2, jnp.float32),
    "second": jnp.asarray(rng.normal(size=(64, 1)) * 0.2, jnp.float32),
}
state, losses = optimizer.init(params), []
for x, y in zip(features, targets, strict=True):
    params, state, loss = train_step(params, state, x, y)
    losses.append(float(loss))
print(f"loss: {losses[0]:.2f} in the first step, {losses[-1]:.2f} in the last; it fell: {losses[-1] < losses[0] / 4}")

# A batch that overflows is skipped: no weight changes, and the loss scale is halved.
before = state.loss_scale.skipped_steps  # a dynamic scale finds its level by skipping a step or two
after, state, _ = train_step(params, state, features[0] * np.float32(1e30), targets[0])
unchanged = all(jax.tree.leaves(jax.tree.map(lambda a, b: bool((a == b).all()), after, params)))
record = state.loss_scale.record()
print(f"skipped steps: {before} before, {record.skipped_steps - before} now, weights unchanged: {unchanged}")
print(f"not finite: {record.offending_variables}")
print(mixdown.jax.report())
