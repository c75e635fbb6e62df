"""What the probes of a run carry with them: `ProbeRecord`, the first equation that made Inf or NaN of finite inputs.

A record is a pytree that goes through the program beside its values, into loops and out of them. `Frame` collects the
observations of equations that follow each other and adds them to the record at once.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

NOTHING = -1
"""The value of `First.site` while everything is finite."""

MOST_PORTS = 8
"""Operands of an equation whose ranges are kept, and results likewise."""

FIELDS = 4
"""Numbers in a summary: lowest, highest, and how many are Inf or NaN."""

LATER = jnp.iinfo(jnp.int32).max


class First(NamedTuple):
    """The first equation that went wrong."""

    site: Any  # its number, `NOTHING` if there is none
    when: Any  # how many equations had run before it
    round: Any  # how often the loop around it had gone round before
    numbers: Any  # the summaries of its operands, then of its results


class ProbeRecord(NamedTuple):
    """What went wrong so far."""

    first: First
    seen: Any  # per equation, whether it ever made Inf or NaN of finite inputs
    clock: Any  # how many equations have run so far


def nothing_yet(sites: int) -> ProbeRecord:
    """The finding before the first equation of a program with so many."""
    numbers = jnp.zeros([2 * MOST_PORTS, FIELDS], jnp.float32)
    first = First(jnp.int32(NOTHING), jnp.int32(LATER), jnp.int32(0), numbers)
    return ProbeRecord(first, seen=jnp.zeros([max(sites, 1)], bool), clock=jnp.int32(0))


@jax.jit
def summary(value: Any) -> jax.Array:
    """Lowest and highest of the finite numbers of an array, and how many others are Inf and NaN."""
    if jnp.issubdtype(value.dtype, jnp.complexfloating):
        value = jnp.stack([value.real, value.imag])
    finite = jnp.isfinite(value)
    kept = jnp.finfo(value.dtype)
    lowest = jnp.min(jnp.where(finite, value, kept.max), initial=kept.max)
    highest = jnp.max(jnp.where(finite, value, kept.min), initial=kept.min)
    counts = [jnp.isinf(value).sum(), jnp.isnan(value).sum()]
    return jnp.stack([each.astype(jnp.float32) for each in (lowest, highest, *counts)])


def not_finite(summaries: Sequence[jax.Array]) -> jax.Array:
    """Whether any of the arrays behind summaries holds Inf or NaN."""
    return jnp.bool_(False) if not summaries else (jnp.stack(list(summaries))[:, 2:] > 0).any()  # noqa: FBT003


class Frame:
    """Equations that run one after the other, in a round of a loop and on the axes of a `shard_map`; what they did."""

    def __init__(self, finding: ProbeRecord, round: Any = 0, axes: tuple[str, ...] = ()) -> None:  # noqa: A002 - of a loop
        self.finding, self.round, self.axes = finding, round, axes
        self._observed: list[tuple[int, Any, Any]] = []  # an equation, whether it is bad, and its numbers
        self._summaries: dict[int, tuple[Any, Any]] = {}  # by the identity of a value, which is kept with it

    def summary(self, value: Any) -> Any:
        """The summary of a value, computed once; None if it holds no floats."""
        if not jnp.issubdtype(getattr(value, "dtype", type(value)), jnp.inexact):
            return None
        if id(value) not in self._summaries:
            self._summaries[id(value)] = value, summary(jnp.asarray(value))
        return self._summaries[id(value)][1]

    def observe(self, site: int, operands: Sequence[Any], results: Sequence[Any], agreed: Any = None) -> None:
        """Note whether an equation made Inf or NaN of finite operands.

        For one that reads other shards, `agreed` turns "all operands are finite" here into the same on all shards.
        """
        read, made = (
            [each for value in values if (each := self.summary(value)) is not None] for values in (operands, results)
        )
        if not made:
            return
        sound = ~not_finite(read)
        bad = (sound if agreed is None else agreed(sound)) & not_finite(made)
        self._observed.append((site, bad, _table(read, made)))

    def settle(self) -> ProbeRecord:
        """The finding with all that was observed so far."""
        if self._observed:
            self.finding = _with(self.finding, self._observed, self.round)
            self._observed = []
        return self.finding


def _table(read: Sequence[Any], made: Sequence[Any]) -> jax.Array:
    """The first summaries of operands and results, at fixed places."""
    halves = [list(each[:MOST_PORTS]) for each in (read, made)]
    blank = jnp.zeros([FIELDS], jnp.float32)
    return jnp.stack([row for half in halves for row in (half + [blank] * (MOST_PORTS - len(half)))])


def _with(finding: ProbeRecord, observed: Sequence[tuple[int, Any, Any]], round: Any) -> ProbeRecord:  # noqa: A002 - of a loop
    sites, bads, numbers = zip(*observed, strict=True)
    equations, bad = jnp.array(sites, jnp.int32), jnp.stack(bads)
    at = jnp.argmax(bad)
    new = First(
        site=jnp.where(bad.any(), equations[at], NOTHING),
        when=finding.clock + at.astype(jnp.int32),
        round=jnp.asarray(round, jnp.int32),
        numbers=jnp.stack(numbers)[at],
    )
    return ProbeRecord(_first(finding.first, new), finding.seen.at[equations].max(bad), finding.clock + len(observed))


def _first(before: First, new: First) -> First:
    """What was found before, if anything was."""
    late = (before.site != NOTHING) | (new.site == NOTHING)
    return First(*(jnp.where(late, old, found) for old, found in zip(before, new, strict=True)))


def earliest(before: ProbeRecord, shards: ProbeRecord) -> ProbeRecord:
    """The finding after a `shard_map`, of that before it and those of all shards, stacked."""
    at = jnp.argmin(shards.first.when)
    found = First(*(leaf[at] for leaf in shards.first))
    return ProbeRecord(_first(before.first, found), before.seen | shards.seen.any(axis=0), shards.clock.max())
