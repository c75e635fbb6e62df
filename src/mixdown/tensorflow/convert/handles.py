"""Where the handles of variables go: through calls, into functions, to reads and writes. Start with `Handles`.

A family is all that must change together if a variable changes its type: usually one variable with its readers, more
where a function is called with one variable here and another there, or where one variable is a copy of another.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import tensorflow as tf
from tensorflow.core.framework import types_pb2

from mixdown.core.disjoint_sets import DisjointSets
from mixdown.tensorflow.protos import signatures
from mixdown.tensorflow.protos.bodies import CALLS, LOOPS, PREDICATED, followed

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from mixdown.tensorflow.convert.body_editor import Sheet
    from mixdown.tensorflow.protos.wiring import Source

HARMLESS = {"VarIsInitializedOp", "DisableCopyOnRead"}
"""Kinds that take a handle and do not care for the variable's type."""

READS = {"ReadVariableOp", "ResourceGather"}
FIRST_SAVED = 3  # the first input of SaveV2 that is a tensor to save


class Place(NamedTuple):
    """A node: the body it stands in ("" is the graph), and its index there."""

    body: str
    node: int


class Edit(NamedTuple):
    """A type attribute of a node, or one entry of it, that changes with a variable."""

    place: Place
    attribute: str
    entry: int | None = None


@dataclass
class Family:
    """Variables that change together."""

    makers: list[Place] = field(default_factory=list)  # the VarHandleOps
    objects: list[int] = field(default_factory=list)  # in the graph of Python objects
    keys: list[str] = field(default_factory=list)  # in the checkpoint
    arguments: list[tuple[str, int]] = field(default_factory=list)  # of functions
    reads: list[Place] = field(default_factory=list)
    writes: list[Place] = field(default_factory=list)
    spoiled: bool = False  # used in a way we do not follow


class Handles:
    """The families in the making."""

    def __init__(self, sheets: Mapping[str, Sheet], library: Mapping[str, Any]) -> None:
        self.sheets, self.library = sheets, library
        self._numbers: dict[Hashable, int] = {}
        self._unions = DisjointSets()
        self._notes: list[tuple[Hashable, str, Any]] = []  # item, field of the family, value
        for body, sheet in sheets.items():
            for index in range(len(sheet.nodes)):
                self._visit(body, sheet, index)

    def join(self, one: Hashable, other: Hashable) -> None:
        """Say that two items belong to one family."""
        self._unions.join(self._number(one), self._number(other))

    def note(self, item: Hashable, what: str, value: object = True) -> None:  # noqa: FBT002 - most notes are marks
        """Say something of the family of an item."""
        self._notes.append((item, what, value))

    def families(self) -> list[Family]:
        """All families, complete."""
        found: dict[int, Family] = {}
        for item, what, value in self._notes:
            family = found.setdefault(self._unions.find(self._number(item)), Family())
            if what == "spoiled":
                family.spoiled = True
            else:
                getattr(family, what).append(value)
        for item, number in self._numbers.items():
            if isinstance(item, tuple) and item[0] in self.sheets and item[1][0] < 0:
                found.setdefault(self._unions.find(number), Family()).arguments.append((item[0], -1 - item[1][0]))
        return list(found.values())

    def _number(self, item: Hashable) -> int:
        return self._numbers.setdefault(item, len(self._numbers))

    def _visit(self, body: str, sheet: Sheet, index: int) -> None:
        node, sources = sheet.nodes[index], sheet.inputs[index]
        callees = followed(node, self.library)
        if node.op == "VarHandleOp":
            self.note((body, (index, 0)), "makers", Place(body, index))
        elif callees:
            for callee in callees:
                self._call(body, sheet, index, callee)
        elif node.op == "Identity" and node.attr["T"].type == types_pb2.DT_RESOURCE:
            self.join((body, sources[0]), (body, (index, 0)))
        elif node.op in READS:
            self.note((body, sources[0]), "reads", Place(body, index))
        elif node.op == "AssignVariableOp":
            self.note((body, sources[0]), "writes", Place(body, index))
        elif node.op not in HARMLESS:
            self._spoil(body, sheet, sources)

    def _spoil(self, body: str, sheet: Sheet, sources: Iterable[Source]) -> None:
        for source in sources:
            if _is_handle(sheet, source):
                self.note((body, source), "spoiled")

    def _call(self, body: str, sheet: Sheet, index: int, callee: str) -> None:
        node, sources, inside = sheet.nodes[index], sheet.inputs[index], self.sheets[callee]
        first = 1 if node.op in PREDICATED else 0
        for position, (_, dtype) in enumerate(inside.body.arguments):
            if dtype == types_pb2.DT_RESOURCE:
                self.join((body, sources[first + position]), (callee, (-1 - position, 0)))
        if node.op in LOOPS and node.attr["cond"].func.name == callee:
            return
        for port, (_, _, dtype) in enumerate(inside.body.results):
            if dtype == types_pb2.DT_RESOURCE:
                self.join((body, (index, port)), (callee, inside.results[port]))
                if node.op in LOOPS:
                    self.join((body, (index, port)), (callee, (-1 - port, 0)))


def _is_handle(sheet: Sheet, source: Source) -> bool:
    node, port = source
    if node < 0:
        return sheet.body.arguments[-1 - node][1] == types_pb2.DT_RESOURCE
    maker = sheet.nodes[node]
    passes = maker.op == "Identity" and maker.attr["T"].type == types_pb2.DT_RESOURCE
    returned = maker.attr["T" if maker.op in LOOPS else "Tout"].list.type if maker.op in CALLS else ()
    return maker.op == "VarHandleOp" or passes or (port < len(returned) and returned[port] == types_pb2.DT_RESOURCE)


def saved_names(sheet: Sheet, index: int) -> list[str]:
    """The names in the checkpoint that a RestoreV2 reads, [] if they are not constant."""
    node = sheet.inputs[index][1][0]
    if node < 0 or sheet.nodes[node].op != "Const":
        return []
    return [name.decode() for name in tf.make_ndarray(sheet.nodes[node].attr["value"].tensor)]


def is_float(node: Any) -> bool:
    """Whether a node that makes, reads or writes a variable takes it for float32."""
    return node.attr["dtype"].type == signatures.FLOAT
