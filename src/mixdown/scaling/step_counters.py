"""Which steps were tried and which were skipped: the counts, the log of skipped steps, and the message about many.

Like the state machine, `counted` is plain arithmetic over whatever numbers it is given, with the host's own `where`: a
host keeps one integer weight per field of `StepCounts`.

A host keeps the log in two arrays of fixed shape, because integers survive compilers and checkpoints where strings do
not: a row of integers per skip (its step, the bad steps in a row after it, its offending variables) and the scale after
it. They are rings: skip number k, counted from 1, is in `row_of(k)`, where number k - KEPT was before. An offending
variable is 4 * (its number) + (the code of its gradient); the host knows the names that belong to the numbers.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mixdown.errors import LossScaleError, LossScaleWarning
from mixdown.messages import warn
from mixdown.scaling.machine import Number, Where, positive_integer
from mixdown.untrusted.escaped import escaped

NEVER = -1
"""The value of `last_skipped_step` while no step has been skipped."""

KEPT = 256
"""Skips the log holds; older ones are overwritten, but still counted."""

MOST_NAMED = 8
"""Offending variables logged per skip: enough to find the layer, few enough to read."""

NO_VARIABLE = -1
"""The value of unused places in a row."""

HEAD = 2
"""Integers of a row before its offenders: the step, and the bad steps in a row."""

LOG_SHAPE = (KEPT, HEAD + MOST_NAMED)
"""The shape of the rows; a row that begins with `NEVER` is empty."""

FINDINGS = ("finite", "Inf", "NaN", "Inf and NaN")
"""What the code of a gradient means: bit 0 is set if it holds an Inf, bit 1 if it holds a NaN."""

WARN_AT = 50
"""Skips in a row after which a warning is given, once, when the user set no limit."""

ADVICE = (
    "no loss scale mends that. Look for Inf or NaN in the batch, the loss and these variables; "
    "pass skip_limit= to choose after how many skips in a row to stop."
)

Offenders = list[tuple[str, str]]  # (name of a variable, what its gradient held), in the order of the variables


class StepCounts(NamedTuple):
    """What happened so far. Steps are numbered from 0 in the order they were tried, skipped or not."""

    steps: Number = 0  # steps tried: the applied ones are steps - skipped_steps
    skipped_steps: Number = 0  # steps whose gradients were not finite, and that changed nothing
    last_skipped_step: Number = NEVER  # number of the latest of them
    skips_in_a_row: Number = 0  # skipped steps since the latest applied one


def counted(counts: StepCounts, *, finite: Number, where: Where) -> StepCounts:
    """The counts after one more step: gradients all finite (it was applied), or not (it was skipped)."""
    return StepCounts(
        steps=counts.steps + 1,
        skipped_steps=where(finite, counts.skipped_steps, counts.skipped_steps + 1),
        last_skipped_step=where(finite, counts.last_skipped_step, counts.steps),
        skips_in_a_row=where(finite, 0, counts.skips_in_a_row + 1),
    )


class CountProperties:
    """The counts as properties of an object with `read_count`: Python numbers, or tensors while a graph is traced."""

    def read_count(self, field: str) -> Number:
        """The value of a field of `StepCounts`."""
        raise NotImplementedError

    steps = property(lambda self: self.read_count("steps"), doc="Steps tried so far, skipped ones included.")
    skipped_steps = property(
        lambda self: self.read_count("skipped_steps"),
        doc="Steps skipped so far because a gradient was not finite; they changed no weight.",
    )
    skips_in_a_row = property(
        lambda self: self.read_count("skips_in_a_row"), doc="Steps skipped since the latest one that was applied."
    )

    @property
    def last_skipped_step(self) -> Number:
        """Number of the latest skipped step, counted from 0; None (in graphs -1) if there was none."""
        step = self.read_count("last_skipped_step")
        return None if isinstance(step, int) and step == NEVER else step


class SkippedStep(NamedTuple):
    """One entry of the log."""

    step: int  # its number among all steps tried, counted from 0
    scale: float  # after it
    bad_steps: int  # of the state machine, after it
    offenders: Offenders


def row_of(skipped_steps: Number) -> Number:
    """The row of the latest skip, given how many there were; an empty row if there were none."""
    return (skipped_steps - 1) % KEPT


def skipped_steps_of(rows: list[list[int]], scales: list[float], names: Sequence[str]) -> list[SkippedStep]:
    """The entries of the log, oldest skip first."""
    found = sorted((row, scale) for row, scale in zip(rows, scales, strict=True) if row[0] != NEVER)
    return [SkippedStep(row[0], scale, row[1], offenders(row[HEAD:], names)) for row, scale in found]


def offenders(entries: Iterable[int], names: Sequence[str]) -> Offenders:
    """The offending variables of a row; one whose name is not known yet (restored, not yet built) by its number."""
    pairs = [divmod(int(entry), len(FINDINGS)) for entry in entries if entry != NO_VARIABLE]
    return [(names[at] if at < len(names) else f"variable {at}", FINDINGS[code]) for at, code in pairs]


class SkipLimit:
    """What to do about many skips in a row: raise at a limit, or warn once if there is none.

    One skipped step is how a dynamic scale finds its level. Many in a row mean that the model itself gives Inf or NaN.
    The limit is None or a whole number above zero, or else refused.
    """

    def __init__(self, limit: object) -> None:
        self.limit = None if limit is None else positive_integer("skip_limit", limit)
        self.warned = False

    @property
    def threshold(self) -> int:
        """Skips in a row from which on there is something to say."""
        return WARN_AT if self.limit is None else self.limit

    def raise_or_warn(self, skips_in_a_row: int, found: Offenders) -> None:
        """Raise a `LossScaleError` at the limit of skips in a row; without one, warn the first time at `WARN_AT`."""
        if skips_in_a_row < self.threshold:
            return
        if self.limit is not None:
            raise LossScaleError(f"{description(skips_in_a_row, found)} That is skip_limit={self.limit}: {ADVICE}")
        if not self.warned:
            self.warned = True
            warn(f"{description(WARN_AT, found)} Likely {ADVICE}", LossScaleWarning)


def description(skips_in_a_row: int, found: Offenders) -> str:
    """How many steps were skipped, and the variables whose gradients were not finite."""
    variables = ", ".join(f"{name} ({finding})" for name, finding in found) or "variables not recorded"
    return escaped(f"{skips_in_a_row} steps in a row were skipped because gradients were not finite: {variables}.")
