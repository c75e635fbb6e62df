"""A float32 in Python: the scale as every host keeps it, to the bit.

Products and quotients are taken in float64 and rounded once, which for two float32 gives the same as float32 hardware.
"""

from struct import pack, unpack
from typing import Self


class Single(float):
    """A float that rounds to float32 whatever it meets, as a host does with the constants of a law."""

    def __new__(cls, value: float) -> Self:
        """The nearest float32."""
        return super().__new__(cls, rounded(value))

    def __mul__(self, other: float) -> "Single":
        return Single(float(self) * rounded(other))

    def __truediv__(self, other: float) -> "Single":
        return Single(float(self) / rounded(other))

    def __le__(self, other: float) -> bool:
        return float(self) <= rounded(other)

    def __gt__(self, other: float) -> bool:
        return float(self) > rounded(other)


def rounded(value: float) -> float:
    """The nearest float32, as a plain float."""
    (nearest,) = unpack("f", pack("f", value))
    return float(nearest)
