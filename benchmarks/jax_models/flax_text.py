"""Transformers, a mixer, a recurrent and a dense network in flax linen, in float32 or annotated by hand."""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp


class Dense(nn.Module):
    """A dense network."""

    widths: tuple[int, ...]
    classes: int
    dtype: Any = None

    @nn.compact
    def __call__(self, x: Any) -> Any:
        """What it makes of its input."""
        for width in self.widths:
            x = nn.relu(nn.Dense(width, dtype=self.dtype)(x))
        return nn.Dense(self.classes, dtype=self.dtype)(x)


class Block(nn.Module):
    """A block of GPT-2, its attention written out, with the softmax in float32."""

    heads: int
    dtype: Any

    @nn.compact
    def __call__(self, x: Any) -> Any:
        """What it makes of its input."""
        width = x.shape[-1]
        size = width // self.heads
        y = nn.LayerNorm(dtype=self.dtype)(x)
        parts = jnp.split(nn.Dense(3 * width, dtype=self.dtype)(y), 3, -1)
        q, k, v = (part.reshape(*part.shape[:2], self.heads, size) for part in parts)
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.asarray(size**0.5, q.dtype)
        mask = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
        scores = jnp.where(mask, scores, jnp.finfo(scores.dtype).min)
        weights = jax.nn.softmax(scores.astype(jnp.float32)).astype(scores.dtype)
        y = jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape)
        x = x + nn.Dense(width, dtype=self.dtype)(y)
        y = nn.LayerNorm(dtype=self.dtype)(x)
        return x + nn.Dense(width, dtype=self.dtype)(nn.gelu(nn.Dense(4 * width, dtype=self.dtype)(y)))


class GPT(nn.Module):
    """GPT-2, with tied embeddings."""

    vocabulary: int
    width: int
    layers: int
    heads: int
    length: int
    remat: bool = False
    dtype: Any = None

    @nn.compact
    def __call__(self, tokens: Any) -> Any:
        """What it makes of its input."""
        words = nn.Embed(self.vocabulary, self.width, dtype=self.dtype)
        places = nn.Embed(self.length, self.width, dtype=self.dtype)
        x = words(tokens) + places(jnp.arange(tokens.shape[1]))
        block = nn.remat(Block) if self.remat else Block
        for _ in range(self.layers):
            x = block(self.heads, self.dtype)(x)
        return words.attend(nn.LayerNorm(dtype=self.dtype)(x))


class Encoder(nn.Module):
    """An encoder with flax's own attention: a ViT if it is given pictures, else a BERT."""

    width: int
    layers: int
    heads: int
    classes: int
    vocabulary: int = 0
    patch: int = 16
    dtype: Any = None

    @nn.compact
    def __call__(self, x: Any) -> Any:
        """What it makes of its input."""
        if self.vocabulary:
            x = nn.Embed(self.vocabulary, self.width, dtype=self.dtype)(x)
        else:
            x = nn.Conv(self.width, (self.patch, self.patch), (self.patch, self.patch), dtype=self.dtype)(x)
            x = x.reshape(x.shape[0], -1, self.width)
        x = x + self.param("places", nn.initializers.normal(0.02), (1, *x.shape[1:])).astype(x.dtype)
        for _ in range(self.layers):
            y = nn.LayerNorm(dtype=self.dtype)(x)
            x = x + nn.MultiHeadDotProductAttention(self.heads, dtype=self.dtype)(y, y)
            y = nn.LayerNorm(dtype=self.dtype)(x)
            x = x + nn.Dense(self.width, dtype=self.dtype)(nn.gelu(nn.Dense(4 * self.width, dtype=self.dtype)(y)))
        return nn.Dense(self.classes, dtype=self.dtype)(jnp.mean(nn.LayerNorm(dtype=self.dtype)(x), 1))


class Mixer(nn.Module):
    """MLP-Mixer."""

    width: int
    layers: int
    classes: int
    patch: int = 16
    dtype: Any = None

    def mix(self, x: Any, hidden: int) -> Any:
        """Two dense layers over the last axis."""
        width = x.shape[-1]
        return nn.Dense(width, dtype=self.dtype)(nn.gelu(nn.Dense(hidden, dtype=self.dtype)(x)))

    @nn.compact
    def __call__(self, x: Any) -> Any:
        """What it makes of its input."""
        x = nn.Conv(self.width, (self.patch, self.patch), (self.patch, self.patch), dtype=self.dtype)(x)
        x = x.reshape(x.shape[0], -1, self.width)
        for _ in range(self.layers):
            y = jnp.swapaxes(nn.LayerNorm(dtype=self.dtype)(x), 1, 2)
            x = x + jnp.swapaxes(self.mix(y, self.width // 2), 1, 2)
            x = x + self.mix(nn.LayerNorm(dtype=self.dtype)(x), 4 * self.width)
        return nn.Dense(self.classes, dtype=self.dtype)(jnp.mean(nn.LayerNorm(dtype=self.dtype)(x), 1))


class Recurrent(nn.Module):
    """An LSTM over embedded words, unrolled."""

    vocabulary: int
    width: int
    length: int
    classes: int
    dtype: Any = None

    @nn.compact
    def __call__(self, tokens: Any) -> Any:
        """What it makes of its input."""
        x = nn.Embed(self.vocabulary, self.width, dtype=self.dtype)(tokens)
        kept = jnp.float64 if self.dtype == "float64" else jnp.float32
        cell = nn.OptimizedLSTMCell(self.width, dtype=self.dtype, param_dtype=kept)
        x = jnp.asarray(nn.RNN(cell, unroll=self.length)(x))
        return nn.Dense(self.classes, dtype=self.dtype)(x[:, -1])
