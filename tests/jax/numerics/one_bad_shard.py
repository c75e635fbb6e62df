"""Run with eight CPU devices: in round 2 of a scan a product overflows, on shard 5 alone. Prints what `locate` says."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, PartitionSpec

from mixdown.core import Policy
from mixdown.jax import locate

SHARDS = 8


def program(x: Any, ws: Any) -> Any:
    """Every shard multiplies by its own weights; after every round all read the sum over shards."""
    mesh = jax.make_mesh((SHARDS,), ("shards",), axis_types=(AxisType.Auto,))

    def layer(h: Any, w: Any) -> Any:
        with jax.named_scope("planted"):
            made = h @ w
        return jnp.tanh(lax.psum(made, "shards")), None

    def run(ws: Any) -> Any:
        return lax.scan(layer, x, ws[0])[0]

    return jax.shard_map(run, mesh=mesh, in_specs=PartitionSpec("shards"), out_specs=PartitionSpec())(ws)


if __name__ == "__main__":
    assert jax.device_count() == SHARDS
    x, ws = jnp.ones([4, 4]), jnp.full([SHARDS, 4, 4, 4], 0.1)
    found = locate(program, x, ws.at[5, 2].set(6e4), policy=Policy(low="float16", rules="jax", devices="all"))
    assert found is not None
    print(found.op, found.iteration, found.inputs[1].highest, found.others)  # noqa: T201 - read by the test
    print(locate(program, x, ws, policy=Policy(low="float16", rules="jax", devices="all")))  # noqa: T201 - the same
