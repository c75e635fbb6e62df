"""The models that are measured: `MODELS`. Each can be made full-sized for counting bytes, or small for training.

A model has parameters and other state, a loss, and a batch. It is made in float32, or by hand in a 16-bit dtype: with
flax's `dtype`, elsewhere by casting parameters and inputs. Losses are taken in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from benchmarks.jax_models.flax_text import GPT, Dense, Encoder, Mixer, Recurrent
from benchmarks.jax_models.flax_vision import ConvNet, ConvNext, ResNet, UNet
from benchmarks.jax_models.other import (
    EquinoxConv,
    autoencoder,
    autoencoder_parameters,
    llama,
    llama_parameters,
)


class Model(NamedTuple):
    """What a training step needs."""

    init: Callable[[Any], tuple[Any, Any]]  # key -> parameters, other state
    loss: Callable[..., Any]  # parameters, other state, batch -> loss, new state
    batch: Callable[[Any], tuple[Any, ...]]  # key -> batch
    optimizer: Any = optax.sgd(0.1, momentum=0.9)

    def step(self, state: Any, *batch: Any) -> Any:
        """One training step: forward pass, backward pass, update."""
        (parameters, other), moments = state
        (value, other), gradient = jax.value_and_grad(self.loss, has_aux=True)(parameters, other, *batch)
        updates, moments = self.optimizer.update(gradient, moments, parameters)
        return ((optax.apply_updates(parameters, updates), other), moments), value

    def start(self, key: Any) -> Any:
        """The state before the first step."""
        parameters, other = self.init(key)
        return (parameters, other), self.optimizer.init(parameters)


def entropy(logits: Any, labels: Any) -> Any:
    """Cross-entropy, in float32."""
    wide = logits.astype(jnp.promote_types(logits.dtype, jnp.float32))
    return optax.softmax_cross_entropy_with_integer_labels(wide, labels).mean()


def flax_model(module: Any, inputs: Callable[[Any], Any], labels: Callable[[Any], Any], loss: Any = entropy) -> Model:
    """A model of a flax module: its parameters, and the statistics that it keeps."""

    def init(key: Any) -> Any:
        variables = module.init(key, inputs(key))
        return variables["params"], {name: value for name, value in variables.items() if name != "params"}

    def value(parameters: Any, other: Any, x: Any, y: Any) -> Any:
        made, new = module.apply({"params": parameters, **other}, x, mutable=list(other))
        return loss(made, y), jax.tree.map(lambda before, after: after.astype(before.dtype), other, new)

    return Model(init, value, lambda key: (inputs(key), labels(key)))


def pictures(count: int, size: int) -> Callable[[Any], Any]:
    """Random pictures."""
    return lambda key: jax.random.normal(jax.random.fold_in(key, 1), (count, size, size, 3))


def numbers(most: int, *shape: int) -> Callable[[Any], Any]:
    """Random labels or words."""
    return lambda key: jax.random.randint(jax.random.fold_in(key, 2), shape, 0, most)


def squares(made: Any, wanted: Any) -> Any:
    """The mean square of a difference, in float32."""
    return jnp.mean((made.astype(jnp.promote_types(made.dtype, jnp.float32)) - wanted) ** 2)


def gpt(dtype: Any, *, small: bool, remat: bool) -> Model:
    """GPT-2 small, of which one batch is words and the words after them."""
    b, t, v = (2, 16, 64) if small else (8, 512, 50257)
    sizes = (v, 32, 2, 4, 16) if small else (v, 768, 12, 12, 1024)
    made = flax_model(GPT(*sizes, remat=remat, dtype=dtype), numbers(v, b, t), lambda key: numbers(v, b, t)(key) // 2)
    return made._replace(optimizer=optax.adamw(3e-4))


def resnet(dtype: Any, *, small: bool) -> Model:
    """ResNet50."""
    b, size, classes = (8, 32, 10) if small else (32, 224, 1000)
    stages, width = ((1, 1), 8) if small else ((3, 4, 6, 3), 64)
    return flax_model(ResNet(stages, width, classes, dtype), pictures(b, size), numbers(classes, b))


def equinox_conv(dtype: Any, *, small: bool) -> Model:
    """A convolutional network in equinox."""
    b, size, widths = (8, 16, (8, 16)) if small else (64, 64, (64, 128, 256))
    _, static = eqx.partition(EquinoxConv(widths, 10, jax.random.key(0)), eqx.is_array)

    def init(key: Any) -> Any:
        return eqx.filter(EquinoxConv(widths, 10, key), eqx.is_array), ()

    def loss(parameters: Any, other: Any, x: Any, y: Any) -> Any:
        parameters, x = cast((parameters, x), dtype)
        return entropy(jax.vmap(eqx.combine(parameters, static))(x), y), other

    channels_first = pictures(b, size)
    return Model(init, loss, lambda key: (jnp.moveaxis(channels_first(key), -1, 1), numbers(10, b)(key)))


def equinox_mlp(dtype: Any, *, small: bool) -> Model:
    """A dense network in equinox."""
    b, width, depth = (8, 32, 2) if small else (1024, 1024, 3)

    def make(key: Any) -> Any:
        return eqx.partition(eqx.nn.MLP(width, 10, 2 * width, depth, jax.nn.silu, key=key), eqx.is_array)

    _, static = make(jax.random.key(0))

    def loss(parameters: Any, other: Any, x: Any, y: Any) -> Any:
        parameters, x = cast((parameters, x), dtype)
        return entropy(jax.vmap(eqx.combine(parameters, static))(x), y), other

    def batch(key: Any) -> Any:
        return jax.random.normal(key, (b, width)), numbers(10, b)(key)

    return Model(lambda key: (make(key)[0], ()), loss, batch, optax.adam(1e-3))


def plain_llama(dtype: Any, *, small: bool) -> Model:
    """A small Llama in plain JAX."""
    b, t, v, width, layers, heads = (2, 16, 64, 32, 2, 4) if small else (8, 512, 32000, 768, 4, 12)

    def loss(parameters: Any, other: Any, x: Any, y: Any) -> Any:
        return entropy(llama(cast(parameters, dtype), x, heads), y), other

    words = numbers(v, b, t)
    init = lambda key: (llama_parameters(key, width, layers, v), ())  # noqa: E731 - a short one
    return Model(init, loss, lambda key: (words(key), words(key) // 2), optax.adamw(3e-4))


def plain_autoencoder(dtype: Any, *, small: bool) -> Model:
    """A variational autoencoder in plain JAX."""
    b, sizes = (8, (64, 32, 8)) if small else (2048, (3072, 2048, 1024, 128))

    def loss(parameters: Any, other: Any, x: Any, noise: Any) -> Any:
        low, seen, other_noise = cast((parameters, x, noise), dtype)
        made, mean, log_variance = autoencoder(low, seen, other_noise)
        wide = jnp.promote_types(made.dtype, jnp.float32)
        mean, log_variance = mean.astype(wide), log_variance.astype(wide)
        divergence = -0.5 * jnp.mean(1 + log_variance - mean**2 - jnp.exp(log_variance))
        return squares(made, x) + divergence, other

    def batch(key: Any) -> Any:
        one, other = jax.random.split(key)
        return jax.random.normal(one, (b, sizes[0])), jax.random.normal(other, (b, sizes[-1]))

    return Model(lambda key: (autoencoder_parameters(key, sizes), ()), loss, batch, optax.adam(1e-3))


def cast(tree: Any, dtype: Any) -> Any:
    """Floating leaves in a dtype, if one is given."""
    if dtype is None:
        return tree
    return jax.tree.map(lambda x: x.astype(dtype) if jnp.issubdtype(x.dtype, jnp.floating) else x, tree)


def encoder(dtype: Any, *, small: bool, words: int) -> Model:
    """A ViT, or a BERT if words are given."""
    width, layers, heads = (32, 2, 4) if small else (384, 6, 6)
    b, size = (4, 16) if small else (32, 224)
    if words:
        b, t, v = (4, 16, 64) if small else (32, 256, words)
        return flax_model(Encoder(width, layers, heads, 10, v, dtype=dtype), numbers(v, b, t), numbers(10, b))
    return flax_model(
        Encoder(width, layers, heads, 10, patch=4 if small else 16, dtype=dtype), pictures(b, size), numbers(10, b)
    )


def flax_small(name: str, dtype: Any, *, small: bool) -> Model:
    """The other models in flax."""
    b, size = (8, 16) if small else (64, 128)
    if name == "conv+BN":
        return flax_model(ConvNet((8, 16) if small else (64, 128, 256), 10, dtype), pictures(b, size), numbers(10, b))
    if name == "ConvNeXt":
        sizes = ((16, 32), 1) if small else ((96, 192), 2)
        return flax_model(ConvNext(*sizes, 10, dtype), pictures(b, size), numbers(10, b))
    if name == "U-Net":
        b, size = (4, 16) if small else (16, 128)
        return flax_model(UNet((8, 16) if small else (64, 128), dtype), pictures(b, size), pictures(b, size), squares)
    if name == "Mixer":
        mixer = Mixer(32, 2, 10, 4, dtype) if small else Mixer(512, 4, 10, 16, dtype)
        return flax_model(mixer, pictures(8, 16) if small else pictures(64, 224), numbers(10, b))
    if name == "LSTM":
        v, width, t, b = (64, 32, 8, 8) if small else (10000, 512, 16, 256)
        return flax_model(Recurrent(v, width, t, 10, dtype), numbers(v, b, t), numbers(10, b))
    widths = (64, 64) if small else (4096, 4096)
    b = 16 if small else 2048
    inputs = lambda key: jax.random.normal(key, (b, widths[0] // 4))  # noqa: E731 - a short one
    return flax_model(Dense(widths, 10, dtype), inputs, numbers(10, b))


MODELS: dict[str, Callable[[Any, bool], Model]] = {
    "ResNet50": lambda dtype, small: resnet(dtype, small=small),
    "GPT-2": lambda dtype, small: gpt(dtype, small=small, remat=False),
    "GPT-2 remat": lambda dtype, small: gpt(dtype, small=small, remat=True),
    "ViT": lambda dtype, small: encoder(dtype, small=small, words=0),
    "BERT": lambda dtype, small: encoder(dtype, small=small, words=30000),
    **{
        name: lambda dtype, small, name=name: flax_small(name, dtype, small=small)  # type: ignore[misc]  # bound by a default
        for name in ("conv+BN", "ConvNeXt", "U-Net", "Mixer", "LSTM", "MLP")
    },
    "equinox conv": lambda dtype, small: equinox_conv(dtype, small=small),
    "equinox MLP": lambda dtype, small: equinox_mlp(dtype, small=small),
    "plain Llama": lambda dtype, small: plain_llama(dtype, small=small),
    "plain VAE": lambda dtype, small: plain_autoencoder(dtype, small=small),
}
"""Name -> the model, given a 16-bit dtype or None for float32, and whether it is to be small."""
