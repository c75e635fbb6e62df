"""The loss-scale state machine, framework-free: start with `machine.after`."""

from mixdown.scaling.errors import LossScaleError
from mixdown.scaling.machine import Law, State, Where, after, start

__all__ = ["Law", "LossScaleError", "State", "Where", "after", "start"]
