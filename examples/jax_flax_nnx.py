"""Flax NNX in bfloat16: the model has no dtype argument, and one line is added to the program."""

import jax
import numpy as np
import optax
from flax import nnx

import mixdown.jax

rng = np.random.default_rng(0)
images = rng.normal(size=(512, 64)).astype("float32")
labels = (images[:, :8].sum(axis=1) > 0).astype("int32")


class Classifier(nnx.Module):
    """Two layers, as anyone would write them."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.hidden = nnx.Linear(64, 128, rngs=rngs)
        self.norm = nnx.LayerNorm(128, rngs=rngs)
        self.head = nnx.Linear(128, 2, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Logits of a batch."""
        return self.head(nnx.relu(self.norm(self.hidden(x))))


mixdown.jax.enable(mixdown.Policy(low="bfloat16", devices="all"))  # the one line; bfloat16 needs no loss scale

model = Classifier(nnx.Rngs(0))
optimizer = nnx.Optimizer(model, optax.adamw(1e-3), wrt=nnx.Param)


@nnx.jit
def train_step(model: Classifier, optimizer: nnx.Optimizer, x: jax.Array, y: jax.Array) -> jax.Array:
    """Take one step."""

    def loss_fn(model: Classifier) -> jax.Array:
        return optax.softmax_cross_entropy_with_integer_labels(model(x), y).mean()

    loss, gradients = nnx.value_and_grad(loss_fn)(model)
    optimizer.update(model, gradients)
    return loss


for _ in range(8):
    for start in range(0, len(images), 64):
        loss = train_step(model, optimizer, images[start : start + 64], labels[start : start + 64])
accuracy = float((model(images).argmax(axis=1) == labels).mean())
print(f"loss {float(loss):.3f}, accuracy above 0.9: {accuracy > 0.9}")  # noqa: PLR2004 - as it says
print(f"weights are {model.hidden.kernel[...].dtype}")
print(mixdown.jax.report().why("dot_general"))
