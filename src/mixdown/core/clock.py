"""How long ops take: what a machine is asked (`Kernel`) and what it must answer (`Clock`)."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Kernel(NamedTuple):
    """One op as a machine sees it."""

    family: str  # what sort of work it is, such as "product" or "elementwise"; "" if of no known sort
    operations: int  # multiplications and additions of a product or convolution, 0 for others
    elements: int  # numbers read and written
    compiled: bool = False  # by XLA


class Clock(Protocol):
    """A device whose times are known: from its data sheet, or because it was measured."""

    @property
    def name(self) -> str:
        """The device."""

    @property
    def source(self) -> str:
        """Where the times come from, for people; follows the word "predicted"."""

    @property
    def least_gain(self) -> float:
        """The part of a graph's time that a plan must be predicted to save before it is used."""

    def time(self, kernel: Kernel, dtype: str) -> float:
        """How many seconds a kernel takes in a dtype."""

    def cast_time(self, elements: int, *, compiled: bool) -> float:
        """How many seconds a cast takes."""
