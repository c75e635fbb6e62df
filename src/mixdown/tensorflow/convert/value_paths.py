"""Where variables are used: `HandleFamilies` follows their handles into functions, `ValuePaths` the values read.

A family is all that must change together if a variable changes its dtype: usually one variable with its readers, more
where a function is called with different variables, or where one variable is a copy of another.
"""

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tensorflow.core.framework import types_pb2

from mixdown.core.disjoint_sets import DisjointSets
from mixdown.tensorflow.convert.body_editor import BodyEditor, Reader
from mixdown.tensorflow.protos.bodies import LOOPS, PREDICATED, calls, followed
from mixdown.tensorflow.protos.library import output_types
from mixdown.tensorflow.protos.wiring import Source

ANY_TYPE = {"VarIsInitializedOp", "DisableCopyOnRead"}
"""Kinds that take the handle of a variable of any dtype."""

READS = {"ReadVariableOp", "ResourceGather"}
CALLS_BY_LIST = {"PartitionedCall", "StatefulPartitionedCall"}
"""Calls that list the types of their arguments in `Tin`."""


Edit = tuple[Any, str, int | None]
"""A node, and its type attribute, or one entry of that, that changes with the dtype of a variable."""


@dataclass
class Family:
    """Variables that change together."""

    makers: list[Reader] = field(default_factory=list)  # the VarHandleOps, by body and node
    objects: list[int] = field(default_factory=list)  # in the graph of Python objects
    keys: list[str] = field(default_factory=list)  # in the checkpoint
    arguments: list[tuple[str, int]] = field(default_factory=list)  # of functions
    reads: list[Reader] = field(default_factory=list)
    writes: list[Reader] = field(default_factory=list)  # where they read the value
    spoiled: list[bool] = field(default_factory=list)  # True, for each use that is not followed


class HandleFamilies:
    """Finds the families: joins items (values in a body, Python objects, names in the checkpoint) and notes facts."""

    def __init__(self, editors: Mapping[str, BodyEditor], library: Mapping[str, Any]) -> None:
        self.editors, self.library = editors, library
        self._numbers: dict[Hashable, int] = {}
        self._unions = DisjointSets()
        self._notes: list[tuple[Hashable, str, Any]] = []  # item, field of the family, value
        for body, editor in editors.items():
            for index in range(len(editor.nodes)):
                self._visit(body, editor, index)

    def join(self, one: Hashable, other: Hashable) -> None:
        """Put two items into one family."""
        self._unions.join(self._number(one), self._number(other))

    def note(self, item: Hashable, what: str, value: object = True) -> None:  # noqa: FBT002 - for fields that are flags
        """Add to a field of the family of an item."""
        self._notes.append((item, what, value))

    def families(self) -> list[Family]:
        """All families."""
        found: dict[int, Family] = {}
        for item, what, value in self._notes:
            family = found.setdefault(self._unions.find(self._number(item)), Family())
            getattr(family, what).append(value)
        for item, number in self._numbers.items():
            if isinstance(item, tuple) and item[0] in self.editors and item[1][0] < 0:
                found.setdefault(self._unions.find(number), Family()).arguments.append((item[0], -1 - item[1][0]))
        return list(found.values())

    def _number(self, item: Hashable) -> int:
        return self._numbers.setdefault(item, len(self._numbers))

    def _visit(self, body: str, editor: BodyEditor, index: int) -> None:
        node, sources = editor.nodes[index], editor.inputs[index]
        callees = followed(node, self.library)
        if node.op == "VarHandleOp":
            self.note((body, (index, 0)), "makers", Reader(body, index))
        elif callees:
            for callee in callees:
                self._call(body, editor, index, callee)
        elif node.op == "Identity" and node.attr["T"].type == types_pb2.DT_RESOURCE:
            self.join((body, sources[0]), (body, (index, 0)))
        elif node.op in READS:
            self.note((body, sources[0]), "reads", Reader(body, index))
        elif node.op == "AssignVariableOp":
            self.note((body, sources[0]), "writes", Reader(body, index, 1))
        elif node.op not in ANY_TYPE:
            for source in sources:
                if self._type(editor, source) == types_pb2.DT_RESOURCE:
                    self.note((body, source), "spoiled")

    def _type(self, editor: BodyEditor, source: Source) -> int:
        node, port = source
        if node < 0:
            return editor.body.arguments[-1 - node][1]
        return output_types(editor.nodes[node], self.library)[port]

    def _call(self, body: str, editor: BodyEditor, index: int, callee: str) -> None:
        node, sources, inside = editor.nodes[index], editor.inputs[index], self.editors[callee]
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


class ValuePath(NamedTuple):
    """The ops that pass a value on unchanged, and the readers that use it."""

    sources: list[tuple[str, Source]]  # where the value is: body and source
    edits: list[Edit]  # of the ops that pass it on
    arguments: list[tuple[str, int]]  # arguments of functions that carry it
    ends: list[Reader]


class ValuePaths:
    """The paths of values through the bodies of a model."""

    def __init__(self, editors: Mapping[str, BodyEditor], library: Mapping[str, Any]) -> None:
        self._editors = editors
        self._called: dict[tuple[str, int], list[str]] = {}
        for body, editor in editors.items():
            self._called.update({(body, index): names for index, names in calls(editor.nodes, library)})
        self._callers = Counter(name for names in self._called.values() for name in names)

    def follow(self, body: str, node: int, port: int = 0) -> ValuePath:
        """Follow an output of a node through identities, and into functions that are called from one place only."""
        path = ValuePath([(body, (node, port))], [], [], [])
        for here, source in path.sources:
            for reader in self._editors[here].readers(source):
                self._step(reader, path)
        return path

    def _step(self, reader: Reader, path: ValuePath) -> None:
        body, index, position = reader
        node = self._editors[body].nodes[index] if index >= 0 else None
        callees = self._called.get((body, index), [])
        if node is not None and node.op == "Identity":
            path.edits.append((node, "T", None))
            path.sources.append((body, (index, 0)))
        elif node is not None and node.op in CALLS_BY_LIST and [self._callers[name] for name in callees] == [1]:
            path.edits.append((node, "Tin", position))
            path.arguments.append((callees[0], position))
            path.sources.append((callees[0], (-1 - position, 0)))
        else:
            path.ends.append(reader)
