"""What devices can do at most: arithmetic by dtype and bytes per second, from the makers' data sheets.

`Machine.time` is a roofline: a kernel takes as long as its arithmetic or its bytes, whichever is more. That is a
prediction, a lower bound at that; only a measurement shows how long a step takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mixdown.core.clock import Kernel

TERA, GIGA = 10**12, 10**9
SIZES = {"float32": 4, "float16": 2, "bfloat16": 2}
CAST_BYTES = SIZES["float32"] + SIZES["float16"]
"""What a cast moves per element: float32 one way, 16 bits the other."""

AVX_CLOCK = 2.5  # GHz, of one core under such load


class Machine(NamedTuple):
    """A device: tera-operations per second for products and convolutions by dtype, and gigabytes per second."""

    name: str
    arithmetic: Mapping[str, float]
    memory: float

    @property
    def source(self) -> str:
        """Where its figures come from, for people."""
        return f"for {self.name} (a roofline, not a measurement)"

    @property
    def least_gain(self) -> float:
        """The part of a graph's time that a plan must be predicted to save: a roofline takes anything."""
        return 0.0

    def time(self, kernel: Kernel, dtype: str) -> float:
        """How many seconds a kernel takes at least."""
        return self._seconds(dtype, kernel.operations, kernel.elements * SIZES[dtype])

    def cast_time(self, elements: int, *, compiled: bool) -> float:  # noqa: ARG002 - measured machines look at it
        """How many seconds a cast takes at least."""
        return self._seconds("float32", 0, elements * CAST_BYTES)

    def _seconds(self, dtype: str, operations: int, moved: int) -> float:
        return max(operations / (self.arithmetic[dtype] * TERA), moved / (self.memory * GIGA))


def _core(name: str, float32: int, bfloat16: int) -> Machine:
    """One core of a CPU, by the operations it finishes in a cycle; float16 is computed in float32."""
    rates = {"float32": float32, "float16": float32, "bfloat16": bfloat16}
    return Machine(name, {dtype: cycle * AVX_CLOCK / 1000 for dtype, cycle in rates.items()}, 10)


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
        _core("CPU core, AVX2", 32, 32),
        _core("CPU core, AVX-512", 64, 64),
        _core("CPU core, AVX-512 BF16", 64, 128),
        _core("CPU core, AMX", 64, 2048),
    )
}
"""Dense figures (no sparsity): name -> machine."""
