"""`LossScale` for JAX: the state machine, the step counts and the log of skips as one pytree. Read `after` first.

Every array in it is a leaf: it is jitted, donated, scanned over, sharded, saved by orbax and pickled like any other
state. The law and the names of the gradients are static.

`all_finite`, `codes` and `unscaled` take a pytree of any float dtypes. Under jit over sharded arrays (GSPMD) a
reduction runs over all shards by itself. Inside `shard_map` or `pmap` a program sees its own shard only: there
`axis_name` says over which axes the shards must agree.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from mixdown.scaling import CountProperties, Law, SkipLimit, State, StepCounts, StepRecord, after, counted, start
from mixdown.scaling.machine import law_of
from mixdown.scaling.step_counters import KEPT, LOG_SHAPE, MOST_NAMED, NEVER, NO_VARIABLE, row_of, skipped_steps_of

AxisName = str | Sequence[str] | None


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["state", "counts", "skip_log", "skip_scales"],
    meta_fields=["law", "names", "held"],
)
@dataclass(frozen=True, eq=False, repr=False)
class JaxLossScale(CountProperties):
    """What a loss is multiplied by, with the counts and the log of skipped steps; `start` makes one.

    Its properties (`steps`, `skipped_steps`, `last_skipped_step`, `skips_in_a_row`) are Python numbers; inside jit they
    are traced.

    Attributes:
        state: of the machine: the scale, good and bad steps in a row.
        counts: of steps tried and skipped.
        skip_log, skip_scales: the latest 256 skips, as `mixdown.scaling.step_counters` describes them.
        law: the constants of the machine.
        names: of the gradients, by which the log names offenders.
        held: whether it is part of a `scaled` transformation, which divides the gradients itself.
    """

    state: State
    counts: StepCounts
    skip_log: Any
    skip_scales: Any
    law: Law
    names: tuple[str, ...] = ()
    held: bool = False

    @classmethod
    def start(cls, loss_scale: Any = "dynamic", params: Any = None, *, held: bool = False) -> Self:
        """The loss scale before the first step.

        Args:
            loss_scale: "dynamic", a number (a fixed scale) or a `mixdown.scaling.Law`.
            params: what is trained: skipped steps are then logged with the names of these leaves.
            held: whether a transformation holds it; set by `scaled`.

        Raises:
            TypeError: `loss_scale` is none of these.
            ValueError: a number is out of range.
        """
        law = law_of(loss_scale)
        first = start(law)
        return cls(
            state=State(jnp.float32(first.scale), jnp.int32(first.good_steps), jnp.int32(first.bad_steps)),
            counts=StepCounts(*map(jnp.int32, StepCounts())),
            skip_log=jnp.full(LOG_SHAPE, NEVER, jnp.int32),
            skip_scales=jnp.zeros(KEPT, jnp.float32),
            law=law,
            names=tuple(
                jax.tree_util.keystr(path, simple=True, separator="/")
                for path, _ in jax.tree_util.tree_flatten_with_path(params)[0]
            ),
            held=held,
        )

    @property
    def scale(self) -> jax.Array:
        """The scale of the next step, a float32 scalar."""
        return jnp.asarray(self.state.scale)

    def scale_loss(self, loss: Any) -> jax.Array:
        """The loss times the scale, in float32 at least; differentiate this."""
        loss = jnp.asarray(loss)
        return loss.astype(jnp.promote_types(loss.dtype, jnp.float32)) * self.scale

    def unscale(self, gradients: Any) -> Any:
        """The gradients of the loss itself: divided by the scale in float32, each in its own dtype."""
        return unscaled(gradients, self.scale)

    def after(self, gradients: Any, axis_name: AxisName = None) -> tuple[Self, jax.Array]:
        """The loss scale after a step, and whether to apply the gradients: all of them are finite, on all shards.

        Args:
            gradients: a pytree, scaled or not.
            axis_name: inside `shard_map` or `pmap`, the axes over which the shards decide together.
        """
        finite = all_finite(gradients, axis_name)
        size = len(jax.tree.leaves(gradients))
        found = lax.cond(finite, lambda: jnp.zeros([size], jnp.int32), lambda: codes(gradients, axis_name))
        return self.moved(finite, found), finite

    def moved(self, finite: Any, found: jax.Array) -> Self:
        """The loss scale after a step that was finite or not, given the code of every gradient."""
        state = after(self.law, State(*map(jnp.asarray, self.state)), finite=finite, where=jnp.where)
        counts = counted(StepCounts(*map(jnp.asarray, self.counts)), finite=finite, where=jnp.where)
        at = row_of(counts.skipped_steps)
        row = jnp.concatenate([jnp.stack([counts.last_skipped_step, state.bad_steps]), log_entries(found)])
        log, scales = (
            ring.at[at].set(jnp.where(finite, ring[at], new))
            for ring, new in ((jnp.asarray(self.skip_log), row), (jnp.asarray(self.skip_scales), state.scale))
        )
        return replace(self, state=state, counts=counts, skip_log=log, skip_scales=scales)

    def read_count(self, field: str) -> Any:
        """The value of a field of `StepCounts`: a Python number, or inside jit a tracer."""
        return read(getattr(self.counts, field))

    def record(self) -> StepRecord:
        """How training went so far, in Python values: counts, the log of skips and the timeline of the scale.

        Of a state that is stacked per device, as under `pmap`, that of the first device.
        """
        rows = np.asarray(self.skip_log).reshape(-1, *LOG_SHAPE)[0].tolist()
        scales = np.asarray(self.skip_scales).reshape(-1, KEPT)[0].tolist()
        counts = {name: getattr(self, name) for name in StepCounts._fields}
        return StepRecord(
            **counts,
            loss_scale=read(self.state.scale),
            good_steps=read(self.state.good_steps),
            skips=skipped_steps_of(rows, scales, self.names),
            law=self.law,
        )

    def check_skips(self, skip_limit: int | None = None) -> None:
        """Raise, or warn, if too many steps in a row were skipped; call it now and then between jitted steps.

        Args:
            skip_limit: skips in a row at which to raise; None to be warned from 50 on.

        Raises:
            LossScaleError: the limit is reached.
        """
        record = self.record()
        SkipLimit(skip_limit).raise_or_warn(record.skips_in_a_row, record.offending_variables)

    def __repr__(self) -> str:
        if isinstance(self.state.scale, jax.core.Tracer) or not hasattr(self.state.scale, "dtype"):
            return f"LossScale({self.state.scale})"
        now = f"{read(self.state.scale)}, steps={self.steps}, skipped_steps={self.skipped_steps}"
        return f"LossScale({now}, {self.law})"


def loss_scale_in(tree: Any) -> JaxLossScale:
    """The one loss scale that a pytree holds, such as the state of an optimizer.

    Raises:
        ValueError: it holds none, or several.
    """
    leaves = jax.tree.leaves(tree, is_leaf=lambda node: isinstance(node, JaxLossScale))
    found = [leaf for leaf in leaves if isinstance(leaf, JaxLossScale)]
    if len(found) != 1:
        raise ValueError(
            f"One LossScale is needed, got {len(found)} in a {type(tree).__name__}. Pass mixdown.jax.LossScale.start() "
            "or the state of a transformation made by mixdown.jax.scaled."
        )
    return found[0]


def log_entries(found: jax.Array) -> jax.Array:
    """The first few gradients with non-zero codes, as a row of the log holds them."""
    last = jnp.iinfo(jnp.int32).max
    entries = jnp.where(found > 0, 4 * jnp.arange(found.size, dtype=jnp.int32) + found, last)
    first = jnp.sort(jnp.pad(entries, (0, MOST_NAMED), constant_values=last))[:MOST_NAMED]
    return jnp.where(first < last, first, NO_VARIABLE)


def read(value: Any) -> Any:
    """A scalar as a Python number; of an array, its first one. A tracer stays what it is."""
    return value if isinstance(value, jax.core.Tracer) else np.asarray(value).reshape(-1)[0].item()


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
