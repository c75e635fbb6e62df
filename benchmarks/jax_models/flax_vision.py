"""Vision models in flax linen, in float32 or annotated by hand with a 16-bit dtype."""

from __future__ import annotations

import functools
from typing import Any

import flax.linen as nn
import jax.numpy as jnp


class Bottleneck(nn.Module):
    """A residual block of ResNet50."""

    filters: int
    strides: tuple[int, int]
    dtype: Any

    @nn.compact
    def __call__(self, x: Any) -> Any:
        """What it makes of its input."""
        conv = functools.partial(nn.Conv, use_bias=False, dtype=self.dtype)
        norm = functools.partial(nn.BatchNorm, use_running_average=False, momentum=0.9, dtype=self.dtype)
        y = nn.relu(norm()(conv(self.filters, (1, 1))(x)))
        y = nn.relu(norm()(conv(self.filters, (3, 3), self.strides)(y)))
        y = norm(scale_init=nn.initializers.zeros_init())(conv(4 * self.filters, (1, 1))(y))
        if x.shape != y.shape:
            x = norm(name="norm_proj")(conv(4 * self.filters, (1, 1), self.strides, name="conv_proj")(x))
        return nn.relu(x + y)


class ResNet(nn.Module):
    """ResNet with bottlenecks, as in flax's examples."""

    stages: tuple[int, ...]
    width: int
    classes: int
    dtype: Any = None

    @nn.compact
    def __call__(self, x: Any) -> Any:
        """What it makes of its input."""
        x = nn.Conv(self.width, (7, 7), (2, 2), [(3, 3), (3, 3)], use_bias=False, dtype=self.dtype)(x)
        x = nn.relu(nn.BatchNorm(use_running_average=False, momentum=0.9, dtype=self.dtype)(x))
        x = nn.max_pool(x, (3, 3), (2, 2), "SAME")
        for stage, blocks in enumerate(self.stages):
            for block in range(blocks):
                strides = (2, 2) if stage and not block else (1, 1)
                x = Bottleneck(self.width * 2**stage, strides, self.dtype)(x)
        return nn.Dense(self.classes, dtype=self.dtype)(jnp.mean(x, (1, 2)))


class ConvNet(nn.Module):
    """Convolutions with batch normalization and max pooling."""

    widths: tuple[int, ...]
    classes: int
    dtype: Any = None

    @nn.compact
    def __call__(self, x: Any) -> Any:
        """What it makes of its input."""
        for width in self.widths:
            x = nn.Conv(width, (3, 3), dtype=self.dtype)(x)
            x = nn.relu(nn.BatchNorm(use_running_average=False, dtype=self.dtype)(x))
            x = nn.max_pool(x, (2, 2), (2, 2))
        x = nn.relu(nn.Dense(4 * self.widths[-1], dtype=self.dtype)(x.reshape(x.shape[0], -1)))
        return nn.Dense(self.classes, dtype=self.dtype)(x)


class ConvNext(nn.Module):
    """Depthwise convolutions, layer normalization and inverted bottlenecks, as in ConvNeXt."""

    widths: tuple[int, ...]
    blocks: int
    classes: int
    dtype: Any = None

    @nn.compact
    def __call__(self, x: Any) -> Any:
        """What it makes of its input."""
        for stage, width in enumerate(self.widths):
            patch = 2 if stage else 4
            x = nn.Conv(width, (patch, patch), (patch, patch), dtype=self.dtype)(x)
            for _ in range(self.blocks):
                y = nn.Conv(width, (7, 7), feature_group_count=width, dtype=self.dtype)(x)
                y = nn.LayerNorm(dtype=self.dtype)(y)
                y = nn.Dense(width, dtype=self.dtype)(nn.gelu(nn.Dense(4 * width, dtype=self.dtype)(y)))
                x = x + y
        return nn.Dense(self.classes, dtype=self.dtype)(nn.LayerNorm(dtype=self.dtype)(jnp.mean(x, (1, 2))))


class UNet(nn.Module):
    """A U-Net with group normalization that predicts a picture, as diffusion models have it."""

    widths: tuple[int, ...]
    dtype: Any = None

    def block(self, x: Any, width: int) -> Any:
        """Convolution, normalization and activation."""
        x = nn.Conv(width, (3, 3), dtype=self.dtype)(x)
        return nn.silu(nn.GroupNorm(num_groups=8, dtype=self.dtype)(x))

    @nn.compact
    def __call__(self, x: Any) -> Any:
        """What it makes of its input."""
        kept = []
        for width in self.widths:
            x = self.block(self.block(x, width), width)
            kept.append(x)
            x = nn.avg_pool(x, (2, 2), (2, 2))
        x = self.block(x, 2 * self.widths[-1])
        for width, skip in zip(reversed(self.widths), reversed(kept), strict=True):
            x = nn.ConvTranspose(width, (2, 2), (2, 2), dtype=self.dtype)(x)
            x = self.block(jnp.concatenate([x, skip], -1), width)
        return nn.Conv(3, (1, 1), dtype=self.dtype)(x)
