"""Loss scaling without a framework. Start with `machine.after`; `ledger` counts, `alarm` speaks up."""

from mixdown.scaling.alarm import LossScaleWarning, checked_limit, offenders, sound
from mixdown.scaling.errors import LossScaleError
from mixdown.scaling.ledger import NEVER, Ledger, blank, entered
from mixdown.scaling.machine import Law, State, Where, after, start

__all__ = [
    "NEVER",
    "Law",
    "Ledger",
    "LossScaleError",
    "LossScaleWarning",
    "State",
    "Where",
    "after",
    "blank",
    "checked_limit",
    "entered",
    "offenders",
    "sound",
    "start",
]
