"""Loss scaling without a framework. Start with `machine.after`; `ledger` counts, `log` remembers, `alarm` speaks up."""

from mixdown.scaling.alarm import Offenders, checked_limit, sound
from mixdown.scaling.machine import Law, State, Where, after, start
from mixdown.scaling.skip_log import SkippedStep
from mixdown.scaling.step_record import NEVER, Ledger, blank, entered
from mixdown.scaling.timeline import Timeline, timeline

__all__ = [
    "NEVER",
    "Law",
    "Ledger",
    "Offenders",
    "SkippedStep",
    "State",
    "Timeline",
    "Where",
    "after",
    "blank",
    "checked_limit",
    "entered",
    "sound",
    "start",
    "timeline",
]
