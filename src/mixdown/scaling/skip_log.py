"""The log of skipped steps: the latest ones, each with what its gradients held. Start with `skipped_steps_of`.

A host keeps it in two arrays of fixed shape, because integers survive compilers and checkpoints where strings do not:
a row of integers a skip (its step, the bad steps in a row after it, its offending variables) and the scale after it.
They are rings: skip number k, counted from 1, is at `place(k)`, where number k - KEPT was before. An offending variable
is 4 * (its number) + (the code of its gradient); whoever holds the variables knows their names.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mixdown.scaling.alarm import MOST_NAMED, VERDICTS, Offenders
from mixdown.scaling.machine import Number
from mixdown.scaling.step_record import NEVER

KEPT = 256
"""Skips the log holds; older ones fall out, but are still counted."""

NOBODY = -1
"""What stands in places of a row that no offender needs."""

HEAD = 2
"""Integers of a row before its offenders: the step, and the bad steps in a row."""

LOG_SHAPE = (KEPT, HEAD + MOST_NAMED)
"""The shape of the rows; a row that begins with `NEVER` is empty."""


class SkippedStep(NamedTuple):
    """One entry of the log."""

    step: int  # its number among all steps tried, counted from 0
    scale: float  # after it
    bad_steps: int  # the machine's, after it
    offenders: Offenders


def place(skipped_steps: Number) -> Number:
    """Which row is the latest skip's, given how many there were; of none, a row that is empty."""
    return (skipped_steps - 1) % KEPT


def skipped_steps_of(rows: list[list[int]], scales: list[float], names: Sequence[str]) -> list[SkippedStep]:
    """The log in words, oldest skip first."""
    found = sorted((row, scale) for row, scale in zip(rows, scales, strict=True) if row[0] != NEVER)
    return [SkippedStep(row[0], scale, row[1], offenders(row[HEAD:], names)) for row, scale in found]


def offenders(entries: Iterable[int], names: Sequence[str]) -> Offenders:
    """The offending variables of a row; one whose name is not known yet (restored, not yet built) by its number."""
    pairs = [divmod(int(entry), len(VERDICTS)) for entry in entries if entry != NOBODY]
    return [(names[who] if who < len(names) else f"variable {who}", VERDICTS[code]) for who, code in pairs]
