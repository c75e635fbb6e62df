"""Models in equinox and in plain JAX. By hand, their parameters and inputs are cast, and norms run in float32."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax


class EquinoxConv(eqx.Module):
    """Convolutions in equinox."""

    convolutions: list[eqx.nn.Conv2d]
    head: eqx.nn.Linear

    def __init__(self, widths: tuple[int, ...], classes: int, key: Any) -> None:
        keys = jax.random.split(key, len(widths) + 1)
        sizes = zip((3, *widths), widths, keys[1:], strict=False)
        self.convolutions = [eqx.nn.Conv2d(a, b, 3, padding=1, key=key) for a, b, key in sizes]
        self.head = eqx.nn.Linear(widths[-1], classes, key=keys[0])

    def __call__(self, x: Any) -> Any:
        """The logits of one picture, channels first."""
        for convolution in self.convolutions:
            x = jax.nn.gelu(convolution(x))
            x = eqx.nn.AvgPool2d(2, 2)(x)
        return self.head(jnp.mean(x, (1, 2)))


def llama_parameters(key: Any, width: int, layers: int, vocabulary: int) -> Any:
    """The weights of a small Llama."""

    def normal(key: Any, *shape: int) -> Any:
        return jax.random.normal(key, shape) * shape[0] ** -0.5

    hidden = 8 * width // 3 // 8 * 8
    names = {"q": (width, width), "k": (width, width), "v": (width, width), "o": (width, width)}
    names |= {"gate": (width, hidden), "up": (width, hidden), "down": (hidden, width)}
    blocks = []
    for block in jax.random.split(key, layers):
        keys = jax.random.split(block, len(names))
        weights = {name: normal(each, *shape) for each, (name, shape) in zip(keys, names.items(), strict=True)}
        blocks.append(weights | {"norm": jnp.ones(width), "norm2": jnp.ones(width)})
    first, last = jax.random.split(jax.random.fold_in(key, 1))
    return {
        "words": jax.random.normal(first, (vocabulary, width)),
        "blocks": blocks,
        "norm": jnp.ones(width),
        "head": normal(last, width, vocabulary),
    }


def rms_norm(x: Any, scale: Any) -> Any:
    """Normalization by the root mean square, in float32."""
    y = x.astype(jnp.float32)
    return (y * lax.rsqrt(jnp.mean(y * y, -1, keepdims=True) + 1e-6)).astype(x.dtype) * scale


def rotated(x: Any) -> Any:
    """Rotary position embedding."""
    half = x.shape[-1] // 2
    angles = jnp.arange(x.shape[1])[:, None] * 10000.0 ** (-jnp.arange(half) / half)
    cos, sin = (f(angles)[:, None, :].astype(x.dtype) for f in (jnp.cos, jnp.sin))
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)


def llama(p: Any, tokens: Any, heads: int) -> Any:
    """The logits of a small Llama, in the dtype of its weights."""
    x = p["words"][tokens]
    for block in p["blocks"]:
        y = rms_norm(x, block["norm"])
        q, k, v = ((y @ block[name]).reshape(*y.shape[:2], heads, -1) for name in "qkv")
        y = jax.nn.dot_product_attention(rotated(q), rotated(k), v, is_causal=True)
        x = x + y.reshape(x.shape) @ block["o"]
        y = rms_norm(x, block["norm2"])
        x = x + (jax.nn.silu(y @ block["gate"]) * (y @ block["up"])) @ block["down"]
    return rms_norm(x, p["norm"]) @ p["head"]


def autoencoder_parameters(key: Any, sizes: tuple[int, ...]) -> Any:
    """The weights of a variational autoencoder; the middle size is that of the code."""
    encoder = list(zip(sizes, (*sizes[1:-1], 2 * sizes[-1]), strict=False))
    decoder = list(zip(sizes[::-1], sizes[::-1][1:], strict=False))
    keys = jax.random.split(key, len(encoder) + len(decoder))
    shapes = zip(keys, encoder + decoder, strict=True)
    return [{"w": jax.random.normal(k, shape) * shape[0] ** -0.5, "b": jnp.zeros(shape[1])} for k, shape in shapes]


def autoencoder(layers: Any, x: Any, noise: Any) -> tuple[Any, Any, Any]:
    """Reconstruction, and mean and logarithm of the variance of the code."""
    half = len(layers) // 2
    y = x
    for number, layer in enumerate(layers[:half]):
        y = y @ layer["w"] + layer["b"]
        y = jnp.tanh(y) if number < half - 1 else y
    mean, log_variance = jnp.split(y, 2, -1)
    y = mean + jnp.exp(0.5 * log_variance) * noise
    for number, layer in enumerate(layers[half:]):
        y = y @ layer["w"] + layer["b"]
        y = jax.nn.elu(y) if number < half - 1 else y
    return y, mean, log_variance
