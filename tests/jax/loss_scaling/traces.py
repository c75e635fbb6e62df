"""Random traces of steps, by the pure machine in Python and by `LossScale` inside jit. Start with `disagreements`."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mixdown.jax.loss_scaling import LossScale
from mixdown.scaling import Law, State, StepCounts, after, counted, start
from mixdown.scaling.step_record import Single, choose

STEPS = 64
COLUMNS = len(State._fields) + len(StepCounts._fields)


def laws(count: int) -> list[Law]:
    """Random laws, with odd multipliers and bounds that are hit."""
    draw = np.random.default_rng(7)
    found = []
    for _ in range(count):
        floor, ceiling = float(draw.uniform(0.01, 8)), float(draw.uniform(64, 2.0**20))
        found.append(
            Law(
                initial=float(draw.uniform(floor, ceiling)),
                increment_period=int(draw.integers(1, 9)),
                multiplier=float(draw.choice([2.0, 1.5, 3.0, 10.0, 1.0 + 2.0**-20, float(draw.uniform(1.01, 5))])),
                floor=floor,
                ceiling=ceiling,
                tolerance=int(draw.integers(1, 4)),
            )
        )
    return found


def traces(count: int, seed: int) -> Any:
    """Which steps are finite, a row per trace; some traces are mostly bad."""
    draw = np.random.default_rng(seed)
    return draw.random((count, STEPS)) < draw.choice([0.3, 0.7, 0.9, 0.98], size=(count, 1))


def in_python(law: Law, finite: Any) -> Any:
    """What the pure machine makes of one trace: scale, good and bad steps and the counts after every step."""
    first = start(law)
    state, counts, rows = first._replace(scale=Single(first.scale)), StepCounts(), []
    for good in finite.tolist():
        state = after(law, state, finite=good, where=choose)
        counts = counted(counts, finite=good, where=choose)
        rows.append((*state, *counts))
    return rows


@partial(jax.jit, static_argnums=0)
def in_jax(law: Law, finite: Any) -> tuple[Any, Any]:
    """The same for many traces at once, by `LossScale` in a scan, and the loss scales after it."""

    def step(scale: Any, good: Any) -> tuple[Any, Any]:
        scale = scale.moved(good, jnp.where(good, 0, 1)[None])
        return scale, (scale.state, scale.counts)

    last, (states, counts) = jax.vmap(lambda trace: jax.lax.scan(step, LossScale.start(law), trace))(finite)
    return last, [*states, *counts]


def disagreements(law: Law, finite: Any) -> int:
    """How many traces differ in any bit, from the pure machine, after any step."""
    _, got = in_jax(law, jnp.asarray(finite))
    expected = np.array([in_python(law, trace) for trace in finite], np.float64)
    found = np.stack([np.asarray(column, np.float64) for column in got], axis=-1)
    assert found.shape == (*finite.shape, COLUMNS)
    return int((found != expected).any(axis=(1, 2)).sum())
