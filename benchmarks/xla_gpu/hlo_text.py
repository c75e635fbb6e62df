"""Parse the text of an HLO module into computations and instructions. Start with `parse`."""

import re
from dataclasses import dataclass
from functools import cached_property
from math import prod

WIDTHS = {"pred": 1, "token": 0}
"""Bytes per element of the types whose name does not contain the number of bits."""

_LEAF = re.compile(r"\b(pred|token|bf16|f8\w*|[sufc]\d+)\[([\d,]*)\]")
_COMPUTATION = re.compile(r"(ENTRY )?%?([\w.\-]+) .*->.*\{\s*$")
_INSTRUCTION = re.compile(r"\s+(?:ROOT )?%?([\w.\-]+) = (\(.*?\)|\S+) ([\w\-]+)\((.*)$")
_COMMENT = re.compile(r"/\*.*?\*/")


@dataclass(frozen=True)
class Array:
    """One array: its element type and its dimensions."""

    dtype: str
    dims: tuple[int, ...]

    @property
    def size(self) -> int:
        """The size in bytes."""
        digits = re.search(r"\d+", self.dtype)
        width = WIDTHS[self.dtype] if self.dtype in WIDTHS else max(1, int(digits.group()) // 8 if digits else 1)
        return width * prod(self.dims)


@dataclass(frozen=True)
class Instruction:
    """One instruction; `operands` are names (a parameter has its number); `attributes` is the text after them."""

    name: str
    shape: str
    opcode: str
    operands: tuple[str, ...]
    attributes: str

    @cached_property
    def arrays(self) -> tuple[Array, ...]:
        """The result: several arrays if it is a tuple."""
        found = _LEAF.findall(self.shape)
        return tuple(Array(dtype, tuple(int(dim) for dim in dims.split(",") if dim)) for dtype, dims in found)

    @property
    def size(self) -> int:
        """The size of the result in bytes."""
        return sum(array.size for array in self.arrays)

    @property
    def called(self) -> tuple[str, ...]:
        """The computations it runs, except conditions of loops and scalar functions of reductions."""
        keys = r"(?:calls|body|branch_computations|true_computation|false_computation)"
        groups = re.findall(rf"\b{keys}=(\{{[^}}]*\}}|%?[\w.\-]+)", self.attributes)
        if self.opcode == "call":
            groups += re.findall(r"\bto_apply=(%?[\w.\-]+)", self.attributes)
        return tuple(name for group in groups for name in re.findall(r"[\w.\-]+", group))

    @property
    def target(self) -> str:
        """The target of a custom call, "" for other instructions."""
        found = re.search(r'custom_call_target="([^"]+)"', self.attributes)
        return found.group(1) if found else ""

    @property
    def op_name(self) -> str:
        """The op of the framework that it comes from, "" if that is not known."""
        found = re.search(r'op_name="([^"]*)"', self.attributes)
        return found.group(1) if found else ""

    @property
    def index(self) -> int:
        """Which part of a tuple is taken, 0 for other instructions."""
        found = re.search(r"\bindex=(\d+)", self.attributes)
        return int(found.group(1)) if found else 0


@dataclass(frozen=True)
class Module:
    """All computations by name, and the name of the entry computation."""

    computations: dict[str, list[Instruction]]
    entry: str


def parse(text: str) -> Module:
    """Parse the text of a module.

    Raises:
        ValueError: the text has no entry computation.
    """
    computations: dict[str, list[Instruction]] = {}
    current: list[Instruction] = []
    entry = ""
    for line in text.splitlines():
        if header := _COMPUTATION.match(line):
            current = computations[header.group(2)] = []
            entry = header.group(2) if header.group(1) else entry
        elif found := _INSTRUCTION.match(line):
            current.append(_instruction(*found.groups()))
    if not entry:
        raise ValueError("This is no HLO module: it has no ENTRY computation.")
    return Module(computations, entry)


def _instruction(name: str, shape: str, opcode: str, tail: str) -> Instruction:
    end = _closing(tail)
    inside = tail[:end]
    match opcode:
        case "parameter":
            operands = [inside]
        case "constant":
            operands = []
        case _:
            operands = re.findall(r"%([\w.\-]+)", inside)
    return Instruction(name, _COMMENT.sub("", shape), opcode, tuple(operands), tail[end + 1 :])


def _closing(tail: str) -> int:
    """The position of the bracket that closes the one opened before the text."""
    depth = 1
    for position, letter in enumerate(tail):
        depth += (letter in "([{") - (letter in ")]}")
        if not depth:
            return position
    return len(tail)
