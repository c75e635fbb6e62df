"""Bytes that each kernel of an optimized HLO module reads and writes. Start with `kernels`.

A fusion, a library call or any other instruction that runs on its own is a kernel; it reads each of its operands once
and writes its results. Values inside a fusion cost nothing. Caches and the scratch space of libraries are not counted,
and the body of a loop is counted once: the result measures the program and is not a prediction of time.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.xla_gpu.hlo_text import Array, Instruction, Module

NOTHING = frozenset(
    ["parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "partition-id", "replica-id"]
)
"""Instructions that move no bytes."""

MOVES = frozenset(["convert", "broadcast", "reshape", "bitcast", "transpose", "copy", "concatenate", "slice"])
"""A kernel that consists of these instructions and contains a conversion is a cast that was not fused."""

PICKS = frozenset(["slice", "dynamic-slice", "gather"])
"""Instructions that read only the part of their first operand that they return."""

PASSES = frozenset(["convert", "bitcast", "reshape", "copy", "negate"])
"""Instructions that make each number of one number: if a part of the results is needed, so is a part of the others."""


@dataclass(frozen=True)
class Kernel:
    """One kernel launch: the bytes it reads and writes, and the opcodes of its instructions."""

    name: str
    kind: str
    read: int
    written: int
    opcodes: tuple[str, ...]

    @property
    def size(self) -> int:
        """Bytes read and written."""
        return self.read + self.written

    @property
    def casts(self) -> int:
        """The number of conversions in it."""
        return self.opcodes.count("convert")

    @property
    def only_casts(self) -> bool:
        """Whether it does nothing but convert and move."""
        return self.casts > 0 and MOVES.issuperset(self.opcodes)


def kernels(module: Module) -> list[Kernel]:
    """All kernels of a module, in the order of its text."""
    made = {name: {each.name: each for each in inside} for name, inside in module.computations.items()}
    return [_kernel(module, one, made[inside]) for inside, one in launched(module, module.entry)]


def launched(module: Module, computation: str) -> Iterator[tuple[str, Instruction]]:
    """Every instruction that is a kernel, with the computation it is in."""
    for instruction in module.computations[computation]:
        if instruction.opcode in NOTHING or instruction.opcode.endswith(("-done", "-update")):
            continue
        if instruction.opcode == "fusion" or not instruction.called:
            yield computation, instruction
        else:
            for name in instruction.called:
                yield from launched(module, name)


def reads(module: Module, instruction: Instruction, made: dict[str, Instruction]) -> dict[str, int]:
    """How many bytes a kernel reads of each of its operands."""
    fused = fused_by(module, instruction)
    return {
        name: min(made[name].size, _picked(fused, instruction.operands.index(name), made[name].size))
        for name in dict.fromkeys(instruction.operands)
        if name in made
    }


def fused_by(module: Module, instruction: Instruction) -> Sequence[Instruction]:
    """The instructions inside a fusion, none for other kernels."""
    return module.computations[instruction.called[0]] if instruction.opcode == "fusion" else []


def _kernel(module: Module, instruction: Instruction, made: dict[str, Instruction]) -> Kernel:
    fused = fused_by(module, instruction)
    opcodes = tuple(_opcodes(module, fused)) or (instruction.opcode,)
    kind = instruction.target or (f"fusion of {len(opcodes)}" if fused else instruction.opcode)
    read = sum(reads(module, instruction, made).values())
    return Kernel(instruction.name, kind, read, sum(array.size for array in written(instruction)), opcodes)


def _picked(fused: Sequence[Instruction], number: int, size: int) -> int:
    """How many bytes of an operand a fusion reads: if it only takes parts of it, cast or not, those parts."""
    named = {one.name: one for one in fused}
    uses: dict[str, list[Instruction]] = {name: [] for name in named}
    for one in fused:
        for name in dict.fromkeys(one.operands):
            uses.get(name, []).append(one)

    def part(name: str) -> float:
        """How much of a value is needed, at most all of it."""
        if not uses[name]:
            return 1.0
        return min(1.0, sum(needed(one, named[name]) for one in uses[name]))

    def needed(use: Instruction, made: Instruction) -> float:
        count, whole = (prod(one.arrays[0].dims) for one in (use, made))
        first = use.operands[0] == made.name
        if use.opcode in PICKS and first:
            return part(use.name) * count / whole
        if use.opcode == "dynamic-update-slice" and first:
            return 0.0
        alone = sum(name in named for name in use.operands) == 1
        return part(use.name) if alone and use.opcode in PASSES and count == whole else 1.0

    inside = [one.name for one in fused if one.opcode == "parameter" and one.operands == (str(number),)]
    return int(size * part(inside[0])) if inside else size


def written(instruction: Instruction) -> Sequence[Array]:
    """The results, without the scratch space that a library call returns as well."""
    arrays = instruction.arrays
    if instruction.opcode == "custom-call" and len(arrays) > 1:
        arrays = tuple(array for array in arrays if array.dtype not in ("s8", "u8"))
    return arrays


def _opcodes(module: Module, fused: Sequence[Instruction]) -> Iterator[str]:
    for instruction in fused:
        if instruction.opcode == "fusion":
            yield from _opcodes(module, module.computations[instruction.called[0]])
        elif instruction.opcode not in NOTHING:
            yield instruction.opcode
