"""Run with eight CPU devices: Inf on one of them, for a thousand steps, in three kinds of programs, with a line each.

Each program trains eight parameters, one a device; step by step one gradient of one device, drawn at random, is Inf,
NaN or fine. `main` prints a line per program: its name, the steps, and how many of them broke the rule that either all
devices take a step or none.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from mixdown.jax.loss_scaling import scaled
from mixdown.scaling import Law

DEVICES, STEPS = 8, 1000
LAW = Law(initial=4.0, increment_period=2, floor=4.0, ceiling=4.0)  # a constant scale: every good step is the same
AXIS = "data"


def batches() -> Any:
    """A row of gradients per step; in nine steps of ten one of them is not finite."""
    draw = np.random.default_rng(0)
    rows = np.full([STEPS, DEVICES], 4.0, np.float32)
    for row in rows:
        row[draw.integers(DEVICES)] = draw.choice([4.0, np.inf, -np.inf, np.nan], p=[0.1, 0.3, 0.3, 0.3])
    return rows


def states(axis_name: str | None) -> tuple[Any, Any]:
    """The optimizer and its state before the first step."""
    tx = scaled(optax.sgd(1.0), LAW, axis_name=axis_name)
    return tx, tx.init(jnp.zeros([]))


def scanned(axis_name: str | None) -> Callable[[Any, Any], Any]:
    """Every parameter after every step, and the loss scale at the end, on one device or on all."""
    tx, _ = states(axis_name)

    def run(state: Any, gradients: Any) -> Any:
        def step(carry: Any, gradient: Any) -> Any:
            params, state = carry
            updates, state = tx.update(gradient, state, params)
            return (params + updates, state), params + updates

        start = jnp.zeros_like(gradients[0])
        (_, state), history = jax.lax.scan(step, (start, state), gradients)
        return history, state.loss_scale

    return run


def with_shard_map(gradients: Any) -> Any:
    mesh = jax.make_mesh((DEVICES,), (AXIS,), axis_types=(AxisType.Auto,))
    split, whole = PartitionSpec(None, AXIS), PartitionSpec()
    run = jax.shard_map(scanned(AXIS), mesh=mesh, in_specs=(whole, split), out_specs=(split, whole))
    return jax.jit(run)(states(AXIS)[1], gradients)


def with_pmap(gradients: Any) -> Any:
    stacked = jax.tree.map(lambda leaf: jnp.stack([leaf] * DEVICES), states(AXIS)[1])
    history, scale = jax.pmap(scanned(AXIS), axis_name=AXIS)(stacked, gradients.T)
    return history.T, scale


def with_sharded_arrays(gradients: Any) -> Any:
    mesh = jax.make_mesh((DEVICES,), (AXIS,), axis_types=(AxisType.Auto,))
    placed = jax.device_put(gradients, NamedSharding(mesh, PartitionSpec(None, AXIS)))
    return jax.jit(scanned(None))(states(None)[1], placed)


def alone(gradients: Any) -> Any:
    """Without agreement every device decides for itself: what the others must not do."""
    mesh = jax.make_mesh((DEVICES,), (AXIS,), axis_types=(AxisType.Auto,))
    split = PartitionSpec(None, AXIS)
    run = jax.shard_map(
        lambda gradients: scanned(None)(states(None)[1], gradients)[0],
        mesh=mesh,
        in_specs=split,
        out_specs=split,
        check_vma=False,
    )
    return jax.jit(run)(gradients), None


def main() -> None:
    """Run all and print what happened."""
    assert jax.device_count() == DEVICES
    gradients = batches()
    taken = np.isfinite(gradients).all(axis=1)
    expected = -np.cumsum(taken)
    for run in (with_shard_map, with_pmap, with_sharded_arrays, alone):
        history, scale = run(jnp.asarray(gradients))
        history = np.asarray(history)
        wrong = int((history != expected[:, None]).any(axis=1).sum())
        skips = "" if scale is None else f", {scale.skipped_steps} skipped"
        print(f"{run.__name__}: {len(history)} steps{skips}, {wrong} wrong")  # noqa: T201 - read by the test


if __name__ == "__main__":
    main()
