"""The books of a loss scale: which steps were tried, which were skipped. Start with `entered`.

Like the state machine, `entered` is plain arithmetic over whatever numbers it is given, with the host's own
`where`: a host keeps one integer weight per field of `Ledger` and lifts this file instead of counting itself.
"""

from typing import NamedTuple

from mixdown.scaling.machine import Number, Where

NEVER = -1
"""The value of `last_skipped_step` while no step has been skipped."""


class Ledger(NamedTuple):
    """What happened so far. Steps are numbered from 0 in the order they were tried, skipped or not."""

    steps: Number  # steps tried: the applied ones are steps - skipped_steps
    skipped_steps: Number  # steps whose gradients were not finite, and that changed nothing
    last_skipped_step: Number  # number of the latest of them, or NEVER
    skips_in_a_row: Number  # skipped steps since the latest applied one


def blank() -> Ledger:
    """The books before the first step."""
    return Ledger(steps=0, skipped_steps=0, last_skipped_step=NEVER, skips_in_a_row=0)


def entered(ledger: Ledger, *, finite: Number, where: Where) -> Ledger:
    """The books after one more step: gradients all finite (it was applied), or not (it was skipped)."""
    return Ledger(
        steps=ledger.steps + 1,
        skipped_steps=where(finite, ledger.skipped_steps, ledger.skipped_steps + 1),
        last_skipped_step=where(finite, ledger.last_skipped_step, ledger.steps),
        skips_in_a_row=where(finite, 0, ledger.skips_in_a_row + 1),
    )
