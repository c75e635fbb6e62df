"""Flax Linen with a TrainState: the same two lines as in plain JAX, and why each layer runs in which dtype."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training.train_state import TrainState

import mixdown.jax

rng = np.random.default_rng(0)
images = rng.normal(size=(256, 12, 12, 1)).astype("float32")
labels = (images.mean((1, 2, 3)) > 0).astype("int32")


class Network(nn.Module):
    """A small convolutional network, without a dtype anywhere."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Logits of a batch."""
        x = nn.relu(nn.Conv(16, (3, 3), name="stem")(x))
        x = x.mean(axis=(1, 2))
        return nn.Dense(2, name="head")(nn.relu(nn.Dense(32, name="hidden")(x)))


policy = mixdown.Policy(low="float16", devices="all")  # the default: bfloat16, on GPUs and TPUs
network = Network()
params = network.init(jax.random.key(0), images[:1])["params"]
state = TrainState.create(apply_fn=network.apply, params=params, tx=mixdown.jax.scaled(optax.adam(1e-2)))


def train_step(state: TrainState, x: jax.Array, y: jax.Array) -> tuple[TrainState, jax.Array]:
    """Take one step; `apply_gradients` unscales the gradients, and skips the step if they are not finite."""

    def loss_fn(params: dict[str, jax.Array]) -> jax.Array:
        logits = state.apply_fn({"params": params}, x)
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    loss, gradients = mixdown.jax.value_and_grad(loss_fn, state.opt_state)(state.params)
    return state.apply_gradients(grads=gradients), loss


planned = mixdown.jax.explain(train_step, state, images[:32], labels[:32], policy=policy)
print(planned.why("Network/stem/conv_general_dilated"))

step = jax.jit(mixdown.jax.rewrite(train_step, policy))  # this function only, instead of `enable`
for _ in range(10):
    for start in range(0, len(images), 32):
        state, loss = step(state, jnp.asarray(images[start : start + 32]), jnp.asarray(labels[start : start + 32]))
scale = state.opt_state.loss_scale
print(f"loss {float(loss):.3f} is finite: {bool(jnp.isfinite(loss))}")
print(f"{scale.steps} steps, skipped steps: {scale.skipped_steps}, parameters are {params['stem']['kernel'].dtype}")
