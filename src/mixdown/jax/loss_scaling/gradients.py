"""What is done to gradients: `all_finite`, `codes`, `unscaled`. A pytree of any float dtypes comes in.

Under jit over sharded arrays (GSPMD) a reduction runs over all shards by itself. Inside `shard_map` or `pmap` a program
sees its own shard only: there `axis_name` says over which axes the shards must agree.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

AxisName = str | Sequence[str] | None


def all_finite(tree: Any, axis_name: AxisName = None) -> jax.Array:
    """Whether no number of a pytree is Inf or NaN; True if it holds no floats at all.

    Args:
        tree: the gradients, or anything else; what is not a float is passed over.
        axis_name: inside `shard_map` or `pmap`, the mesh axes over which all shards must be finite.

    Returns:
        A scalar bool array.
    """
    each = [jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(tree) if is_float(leaf)]
    finite = jnp.stack(each).all() if each else jnp.bool_(True)  # noqa: FBT003 - how a constant is made
    return finite if axis_name is None else lax.pmin(finite.astype(jnp.int32), axis_name) == 1


def codes(tree: Any, axis_name: AxisName = None) -> jax.Array:
    """An int32 per leaf: 0 finite, 1 holds Inf, 2 holds NaN, 3 holds both, on any shard."""
    leaves = jax.tree.leaves(tree)
    if not leaves:
        return jnp.zeros([0], jnp.int32)
    found = jnp.stack([_found(leaf) for leaf in leaves]).astype(jnp.int32)
    if axis_name is not None:
        found = lax.pmax(found, axis_name)
    return found[:, 0] + 2 * found[:, 1]


def _found(leaf: Any) -> jax.Array:
    """Whether a leaf holds Inf, and whether it holds NaN."""
    if not is_float(leaf):
        return jnp.zeros([2], bool)
    return jnp.stack([jnp.isinf(leaf).any(), jnp.isnan(leaf).any()])


def unscaled(tree: Any, scale: jax.Array) -> Any:
    """The gradients over the scale, divided in float32 at least, each in its own dtype."""
    return jax.tree.map(lambda leaf: _divided(leaf, scale) if is_float(leaf) else leaf, tree)


def _divided(leaf: Any, scale: jax.Array) -> jax.Array:
    # Divided, not multiplied by 1/scale: 1/2**127 is subnormal and flushed to 0. In float32 at least: a scale above
    # 65504 is inf in float16.
    wide = jnp.promote_types(leaf.dtype, jnp.float32)
    return (leaf.astype(wide) / scale.astype(wide)).astype(leaf.dtype)


def is_float(leaf: Any) -> bool:
    """Whether a leaf holds floats or complex numbers."""
    return jnp.issubdtype(getattr(leaf, "dtype", type(leaf)), jnp.inexact)
