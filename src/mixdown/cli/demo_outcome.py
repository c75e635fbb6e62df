"""What the demonstration trains, and what comes of it: plain data that passes between processes, without TensorFlow."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Task:
    """What to train."""

    data: str
    epochs: int
    low: str = ""  # "" for float32
    page: str = ""  # where the report goes


@dataclass(frozen=True)
class Outcome:
    """What came of it."""

    accuracy: float
    step_seconds: float
    memory: int  # bytes that training took at most
    steps: int
    closed_gate: str = ""  # why the default policy would leave this machine alone
    ops: int = 0
    low_ops: int = 0
    casts: int = 0
    timeline: tuple[tuple[int, float], ...] = ()  # the step from which on, and the loss scale
    skipped: tuple[int, ...] = ()  # the steps
