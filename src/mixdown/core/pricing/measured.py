"""How fast a device was when it was timed, and what follows for an op. Start with `Measured`.

Ops fall into families; each was timed at a few sizes, in every dtype, compiled and not. Between two sizes times are
interpolated; a smaller op takes as long as the smallest, for that is the cost of starting it; a larger one takes
longer in proportion.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, NamedTuple

from mixdown.core.clock import Kernel
from mixdown.core.pricing.machines import SIZES
from mixdown.errors import MeasurementError

FAMILIES = (
    "product",
    "convolution",
    "convolution gradient",
    "normalization",
    "pooling",
    "elementwise",
    "reduction",
    "lookup",
    "cast",
)
MODES = ("graph", "jit")
LEAST_GAIN = 0.1
"""What a measurement must promise before anything is changed: it is no more exact than that."""

DOUBT = 1.5
"""How much longer than in float32 a 16-bit op of no family is assumed to take, since none was timed."""

Samples = tuple[tuple[int, float], ...]
"""Amounts (operations of products and convolutions, else elements), rising, each with the seconds it took."""


class Measured(NamedTuple):
    """A device that was timed: family, mode and dtype ("float32" for casts) -> samples."""

    name: str
    samples: Mapping[tuple[str, str, str], Samples]

    @property
    def source(self) -> str:
        """Where its figures come from, for people."""
        return f"from the measurement of {self.name}"

    @property
    def least_gain(self) -> float:
        """The part of a graph's time that a plan must be predicted to save."""
        return LEAST_GAIN

    def time(self, kernel: Kernel, dtype: str) -> float:
        """How many seconds a kernel is expected to take."""
        amount = kernel.operations or kernel.elements
        if kernel.family:
            return self._at(kernel.family, dtype, amount, compiled=kernel.compiled)
        doubt = 1.0 if dtype == "float32" else DOUBT
        return doubt * self._at("elementwise", "float32", amount, compiled=kernel.compiled)

    def cast_time(self, elements: int, *, compiled: bool) -> float:
        """How many seconds a cast is expected to take."""
        return self._at("cast", "float32", elements, compiled=compiled)

    def slower(self, low: str) -> list[tuple[str, str]]:
        """The families and modes in which the largest op that was timed took longer low than in float32."""
        pairs = [(each, mode) for mode in MODES for each in FAMILIES if each != "cast"]
        return [
            (each, mode)
            for each, mode in pairs
            if self.samples[each, mode, low][-1][1] > self.samples[each, mode, "float32"][-1][1]
        ]

    def to_dict(self) -> dict[str, Any]:
        """The measurement as plain data, for JSON; `from_dict` brings it back."""
        rows = [[*key, [list(sample) for sample in samples]] for key, samples in self.samples.items()]
        return {"name": self.name, "samples": rows}

    @classmethod
    def from_dict(cls, data: Any) -> Measured:  # noqa: ANN401 - whatever a file held
        """The measurement that `to_dict` wrote.

        Raises:
            MeasurementError: something is missing, or no number.
        """
        try:
            rows = {(str(one), str(mode), str(dtype)): _samples(found) for one, mode, dtype, found in data["samples"]}
            measured = cls(str(data["name"]), rows)
        except (KeyError, OverflowError, TypeError, ValueError) as error:
            raise MeasurementError(f"This is no measurement: {error!r}.") from None
        if missing := sorted(wanted() - measured.samples.keys()):
            raise MeasurementError(f"The measurement lacks {' '.join(missing[0])}.")
        return measured

    def _at(self, which: str, dtype: str, amount: int, *, compiled: bool) -> float:
        return interpolated(self.samples[which, MODES[compiled], dtype], amount) if amount else 0.0


def wanted() -> set[tuple[str, str, str]]:
    """Every family, mode and dtype that a measurement has."""
    return {
        (each, mode, dtype)
        for each in FAMILIES
        for mode in MODES
        for dtype in SIZES
        if each != "cast" or dtype == "float32"
    }


def interpolated(samples: Samples, amount: int) -> float:
    """The seconds that an amount takes."""
    place = bisect(samples, amount, key=lambda sample: sample[0])
    if place == 0:
        return samples[0][1]
    before, its = samples[place - 1]
    if place == len(samples):
        return its * amount / before
    after, later = samples[place]
    return its + (later - its) * (amount - before) / (after - before)


def _samples(found: Sequence[Sequence[float]]) -> Samples:
    samples = tuple(sorted((int(amount), float(seconds)) for amount, seconds in found))
    amounts = [amount for amount, _ in samples]
    if not samples or min(amounts) <= 0 or len(set(amounts)) < len(amounts):
        raise ValueError("amounts must be positive, each once")
    if not all(isfinite(seconds) and seconds > 0 for _, seconds in samples):
        raise ValueError("seconds must be positive")
    return samples
