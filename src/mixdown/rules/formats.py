"""The 16-bit formats, described by float32 boundaries: where rounding to nearest even gives zero, fewer digits or Inf.

Boundaries are the bits of a float32 without its sign, read as an integer: these order as the numbers do, subnormal
ones, Inf and NaN included, and comparing them is exact everywhere.
"""

from dataclasses import dataclass
from struct import pack, unpack


@dataclass(frozen=True)
class Format:
    """A 16-bit format. `kept`, `normal` and `too_large` are the bits of the smallest float32 to which they apply."""

    name: str
    kept: int  # does not become zero
    normal: int  # becomes a normal number, with all digits
    too_large: int  # becomes Inf
    largest: float
    smallest_normal: float
    whole: int  # every integer up to this one is exact


FLOAT16 = Format("float16", 0x33000001, 0x387FE000, 0x477FF000, 65504.0, 2.0**-14, 2048)
BFLOAT16 = Format("bfloat16", 0x00008001, 0x007F8000, 0x7F7F8000, 3.3895313892515355e38, 2.0**-126, 256)
FORMATS = {each.name: each for each in (FLOAT16, BFLOAT16)}

NONZERO, INF, NAN = 1, 0x7F800000, 0x7F800001
"""The boundaries from which on a float32 is not zero, is Inf, is NaN."""

BOUNDARIES = tuple(sorted({NONZERO, INF, NAN, *(b for f in FORMATS.values() for b in (f.kept, f.normal, f.too_large))}))
EXPONENTS = 256  # of a float32
BIAS = 127


def value_of(bits: int) -> float:
    """The magnitude that has these bits."""
    return float(unpack("<f", pack("<I", bits))[0])
