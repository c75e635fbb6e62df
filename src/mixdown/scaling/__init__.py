"""Loss scaling without a framework: a law (`Law`) and numbers or tensors of a host come in, new numbers go out.

The doors are `after`, which moves the scale after a step, and `counted`, which counts the step. A host keeps their
numbers in its own weights and reads them back as a `StepRecord`; `SkipLimit` raises or warns about many skips in a row.
"""

from mixdown.scaling.machine import Law, State, after, start
from mixdown.scaling.step_counters import CountProperties, SkipLimit, StepCounts, counted
from mixdown.scaling.step_record import StepRecord

__all__ = ["CountProperties", "Law", "SkipLimit", "State", "StepCounts", "StepRecord", "after", "counted", "start"]
