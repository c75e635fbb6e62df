"""What is said when steps are skipped again and again. Start with `sound`.

One skipped step is how a dynamic scale finds its height. Many in a row mean that the model itself gives Inf
or NaN: `sound` then raises, if the user set a limit, or warns once.
"""

from mixdown.errors import LossScaleError, LossScaleWarning
from mixdown.messages import warn
from mixdown.scaling.machine import positive_integer
from mixdown.untrusted.escaped import escaped

WARN_AT = 50
"""Skips in a row after which a warning is given, once, when the user set no limit."""

MOST_NAMED = 8
"""Offending variables kept and named: enough to find the layer, few enough to read."""

VERDICTS = ("finite", "Inf", "NaN", "Inf and NaN")
"""What the code of a gradient says: bit 0 is set if it holds an Inf, bit 1 if it holds a NaN."""

Offenders = list[tuple[str, str]]  # (name of a variable, what its gradient held), first offenders first


WAY_OUT = (
    "no loss scale mends that. Look for Inf or NaN in the batch, the loss and these variables; "
    "pass skip_limit= to choose after how many skips in a row to stop."
)


def checked_limit(skip_limit: object) -> int | None:
    """The limit of skips in a row, refused unless it is None or a whole number above zero."""
    return None if skip_limit is None else positive_integer("skip_limit", skip_limit)


def sound(skips_in_a_row: int, found: Offenders, *, skip_limit: int | None) -> None:
    """Raise at the limit of skips in a row; without a limit, warn when the count is exactly `WARN_AT`.

    Raises:
        LossScaleError: `skips_in_a_row` has reached `skip_limit`.
    """
    if skip_limit is not None and skips_in_a_row >= skip_limit:
        raise LossScaleError(f"{trouble(skips_in_a_row, found)} That is skip_limit={skip_limit}: {WAY_OUT}")
    if skip_limit is None and skips_in_a_row == WARN_AT:
        warn(f"{trouble(skips_in_a_row, found)} Likely {WAY_OUT}", LossScaleWarning)


def trouble(skips_in_a_row: int, found: Offenders) -> str:
    """What went wrong, with the culprits by name."""
    culprits = ", ".join(f"{name} ({verdict})" for name, verdict in found) or "variables not recorded"
    return escaped(f"{skips_in_a_row} steps in a row were skipped because gradients were not finite: {culprits}.")
