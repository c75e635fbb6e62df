"""Layers that careless use of 16 bits ruins, written as libraries write them, and what they compute in float64.

`Identity` is a matrix product that runs in 16 bits before and after them, and adds nothing but rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

if TYPE_CHECKING:
    from collections.abc import Callable

HALF = 32
FREQUENCIES = 10000.0 ** -(np.arange(HALF) / HALF)


def by_einsum(positions: Any, frequencies: Any) -> Any:
    """Angles as keras-hub computes them."""
    return ops.einsum("i,j->ij", positions, frequencies)


def by_matmul(positions: Any, frequencies: Any) -> Any:
    """Angles as transformers computes them: a matrix product with an inner size of 1."""
    return ops.matmul(positions[:, None], frequencies[None, :])


def by_broadcast(positions: Any, frequencies: Any) -> Any:
    """Angles as most tutorials compute them."""
    return positions[:, None] * frequencies[None, :]


ANGLES = {"einsum": by_einsum, "matmul": by_matmul, "broadcast": by_broadcast}


class Rotary(keras.layers.Layer):
    """Turns pairs of features by an angle that grows with the position."""

    def __init__(self, angles: Callable[[Any, Any], Any], **options: Any) -> None:
        super().__init__(**options)
        self.angles = angles

    def call(self, values: Any) -> Any:
        positions = ops.arange(ops.shape(values)[1], dtype="float32")
        frequencies = ops.cast(FREQUENCIES, "float32")
        angle = self.angles(positions, frequencies)
        angle = ops.concatenate([angle, angle], axis=-1)
        cosine, sine = ops.cast(ops.cos(angle), self.compute_dtype), ops.cast(ops.sin(angle), self.compute_dtype)
        first, second = ops.split(values, 2, axis=-1)
        return values * cosine + ops.concatenate([-second, first], axis=-1) * sine


def rotary_in_float64(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What `Rotary` computes."""
    angle = np.arange(values.shape[1], dtype=np.float64)[:, None] * np.float32(FREQUENCIES).astype(np.float64)
    angle = np.concatenate([angle, angle], -1)
    first, second = np.split(values.astype(np.float64), 2, -1)
    return values * np.cos(angle) + np.concatenate([-second, first], -1) * np.sin(angle)


class Sinusoidal(keras.layers.Layer):
    """The time embedding of a diffusion model: sines and cosines of a step times frequencies."""

    def __init__(self, angles: Callable[[Any, Any], Any], **options: Any) -> None:
        super().__init__(**options)
        self.angles = angles

    def call(self, steps: Any) -> Any:
        angle = self.angles(ops.cast(steps, "float32"), ops.cast(FREQUENCIES, "float32"))
        return ops.cast(ops.concatenate([ops.sin(angle), ops.cos(angle)], axis=-1), self.compute_dtype)


def sinusoidal_in_float64(steps: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What `Sinusoidal` computes."""
    angle = steps.astype(np.float64)[:, None] * np.float32(FREQUENCIES).astype(np.float64)
    return np.concatenate([np.sin(angle), np.cos(angle)], -1)


class Identity(keras.layers.Layer):
    """A matrix product that changes nothing but runs in 16 bits."""

    def build(self, shape: Any) -> None:
        self.kernel = self.add_weight(shape=(shape[-1], shape[-1]), initializer="identity")

    def call(self, values: Any) -> Any:
        return ops.matmul(values, self.kernel)


def masked(values: Any, mask: Any, how: str, lowest: float) -> Any:
    """Attention scores with masked places made very negative, by one of the three usual ways."""
    floats = tf.cast(mask, tf.float32)
    match how:
        case "added":
            return values + (1.0 - floats) * lowest
        case "multiplied":
            return values * floats + (1.0 - floats) * lowest
        case _:
            return tf.where(mask > 0, values, lowest)
