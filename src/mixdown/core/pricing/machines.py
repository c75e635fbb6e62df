"""What devices can do at most: arithmetic by dtype and bytes per second, from the makers' data sheets.

`Machine.time` is a roofline: a kernel takes as long as its arithmetic or its bytes, whichever is more. That is a
prediction, a lower bound at that; only a measurement shows how long a step takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

TERA, GIGA = 10**12, 10**9
SIZES = {"float32": 4, "float16": 2, "bfloat16": 2}
CAST_BYTES = SIZES["float32"] + SIZES["float16"]
"""What a cast moves per element: float32 one way, 16 bits the other."""


class Machine(NamedTuple):
    """A device: tera-operations per second for products and convolutions by dtype, and gigabytes per second."""

    name: str
    arithmetic: Mapping[str, float]
    memory: float

    @property
    def source(self) -> str:
        """Where its figures come from, for people."""
        return f"for {self.name} (a roofline, not a measurement)"

    def time(self, dtype: str, operations: int, moved: int) -> float:
        """How many seconds a kernel of so many operations takes at least that moves so many bytes."""
        return max(operations / (self.arithmetic[dtype] * TERA), moved / (self.memory * GIGA))


MACHINES: dict[str, Machine] = {
    machine.name: machine
    for machine in (
        # No bfloat16 units on V100 and T4: computed in float32.
        Machine("V100", {"float32": 15.7, "float16": 125, "bfloat16": 15.7}, 900),
        Machine("T4", {"float32": 8.1, "float16": 65, "bfloat16": 8.1}, 320),
        # From Ampere on, TensorFlow runs float32 products in TF32 unless told otherwise: that rate is float32's here.
        Machine("A100", {"float32": 156, "float16": 312, "bfloat16": 312}, 1555),
        Machine("H100", {"float32": 494.7, "float16": 989.4, "bfloat16": 989.4}, 3350),
        Machine("L4", {"float32": 60, "float16": 121, "bfloat16": 121}, 300),
        # float32 products take six passes in bfloat16, float16 is turned into float32 first.
        Machine("TPU v4", {"float32": 275 / 6, "float16": 275 / 6, "bfloat16": 275}, 1228),
    )
}
"""Dense figures (no sparsity): name -> machine."""
