"""Variables stored in 16 bits, where nobody reads them in 32: `weights="low"`. Start with `store_low`.

A variable is stored low if every read of it is cast to the low dtype at once, and if nothing writes it but a restore
or its initializer. The cast would round it at every call; now it is rounded once, to the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from mixdown.tensorflow.convert import constants
from mixdown.tensorflow.convert.body_editor import Reader, Sheet
from mixdown.tensorflow.convert.handles import FIRST_SAVED, Edit, Family, Handles, Place, is_float, saved_names
from mixdown.tensorflow.convert.names import variables
from mixdown.tensorflow.convert.value_paths import Trail, Trails
from mixdown.tensorflow.protos import kernels, signatures
from mixdown.tensorflow.protos.bodies import function_body, graph_body, reachable

if TYPE_CHECKING:
    from collections.abc import Mapping


class Stored(NamedTuple):
    """What was stored low."""

    variables: tuple[str, ...]
    keys: frozenset[str]  # their names in the checkpoint
    constants: int


NOTHING = Stored((), frozenset(), 0)


def store_low(meta_graph: Any, low: int, object_keys: Mapping[int, str], preserved: set[str]) -> Stored:
    """Let variables and constants be low wherever nobody reads them in float32, in place.

    Args:
        meta_graph: a saved graph that has been rewritten.
        low: the low dtype.
        object_keys: for every variable in the graph of Python objects, its name in the checkpoint.
        preserved: names of nodes of the graph that keep their types.
    """
    model = _Model(meta_graph, low)
    model.connect_objects(object_keys)
    chosen = [family for family in model.find_families() if model.may_be_low(family)]
    for family in chosen:
        model.lower(family)
    count = sum(constants.store_low(sheet, preserved if not name else set()) for name, sheet in model.sheets.items())
    for sheet in model.sheets.values():
        sheet.finish()
    names = sorted({name for family in chosen for name in model.names(family)})
    return Stored(tuple(names), frozenset(key for family in chosen for key in family.keys), count)


@dataclass
class _Writes:
    """Where writes get their values from, as far as we follow them."""

    edits: dict[Place, list[Edit]] = field(default_factory=dict)  # of restores
    copies: set[Place] = field(default_factory=set)  # from another variable


class _Model:
    """A saved graph, its functions and its Python objects."""

    def __init__(self, meta_graph: Any, low: int) -> None:
        graph_def, self.objects, self.low = meta_graph.graph_def, meta_graph.object_graph_def, low
        self.library = {function.signature.name: function for function in graph_def.library.function}
        self.initializers = {variable.initializer_name for variable in variables(meta_graph)}
        roots = [graph_body(graph_def)]
        roots += [function_body(self.library[name]) for name in self.objects.concrete_functions if name in self.library]
        used = {root.function for root in roots if root.function}.union(*(reachable(r, self.library) for r in roots))
        self.sheets = {"": Sheet(graph_def, self.library, low)}
        self.sheets |= {name: Sheet(self.library[name], self.library, low) for name in sorted(used)}
        self.handles = Handles(self.sheets, self.library)
        self.trails = Trails(self.sheets, self.library)
        self.writes = _Writes()

    def connect_objects(self, object_keys: Mapping[int, str]) -> None:
        """Tell the handles which Python object is bound to which argument, and its name in the checkpoint."""
        for name, saved in self.objects.concrete_functions.items():
            first = len(self.library[name].signature.input_arg) - len(saved.bound_inputs) if name in self.library else 0
            for position, number in enumerate(saved.bound_inputs if name in self.library else ()):
                self.handles.join((name, (-1 - first - position, 0)), ("object", number))
        for number, node in enumerate(self.objects.nodes):
            if node.WhichOneof("kind") == "variable":
                self.handles.note(("object", number), "objects", number)
                if number in object_keys:
                    self.handles.join(("object", number), ("key", object_keys[number]))
                if number not in object_keys or node.variable.experimental_distributed_variable_components:
                    self.handles.note(("object", number), "spoiled")

    def find_families(self) -> list[Family]:
        """All families, once restores and copies are known."""
        for body, sheet in self.sheets.items():
            for index, node in enumerate(sheet.nodes):
                if node.op == "RestoreV2":
                    self._restore(Place(body, index), saved_names(sheet, index))
                elif node.op == "ReadVariableOp":
                    self._copy(Place(body, index))
        return self.handles.families()

    def _handle(self, place: Place) -> tuple[str, Any]:
        return place.body, self.sheets[place.body].inputs[place.node][0]

    def _restore(self, place: Place, names: list[str]) -> None:
        """Connect the variables that a RestoreV2 fills with their names in the checkpoint."""
        for port, name in enumerate(names):
            self.handles.note(("key", name), "keys", name)
            trail = self.trails.follow(place.body, (place.node, port))
            if all(self._is_write(*end) for end in trail.ends):
                for body, reader in trail.ends:
                    target = Place(body, reader.node)
                    self.writes.edits[target] = [*trail.edits, Edit(place, "dtypes", port)]
                    self.handles.join(("key", name), self._handle(target))
            else:
                self.handles.note(("key", name), "spoiled")

    def _copy(self, place: Place) -> None:
        """Connect a variable with those that are written with its value."""
        for body, reader in self.trails.follow(place.body, (place.node, 0)).ends:
            if self._is_write(body, reader):
                self.writes.copies.add(Place(body, reader.node))
                self.handles.join(self._handle(place), self._handle(Place(body, reader.node)))

    def _is_write(self, body: str, reader: Reader) -> bool:
        return (
            reader.node >= 0 and self.sheets[body].nodes[reader.node].op == "AssignVariableOp" and reader.position == 1
        )

    def may_be_low(self, family: Family) -> bool:
        """Whether a family is float32, restored, only written when it is, and read in 16 bits."""
        if family.spoiled or not family.keys or not all(is_float(self._node(p)) for p in self._touching(family)):
            return False
        if not all(self.objects.nodes[number].variable.dtype == signatures.FLOAT for number in family.objects):
            return False
        ends = [(read, end) for read in family.reads for end in self._trail(read).ends]
        return (
            any(self._is_low(*end) for _, end in ends)
            and all(self._is_low(*end) or self._is_stored(read, *end) for read, end in ends)
            and all(self._is_known_write(write) for write in family.writes)
            and all(self._has_kernel(self._node(read)) for read in family.reads)
        )

    def _node(self, place: Place) -> Any:
        return self.sheets[place.body].nodes[place.node]

    def _touching(self, family: Family) -> list[Place]:
        return [*family.makers, *family.reads, *family.writes]

    def _trail(self, read: Place) -> Trail:
        return self.trails.follow(read.body, (read.node, 0))

    def _is_low(self, body: str, reader: Reader) -> bool:
        return self.sheets[body].is_lowered(reader)

    def _is_stored(self, read: Place, body: str, reader: Reader) -> bool:
        """Whether a value goes to a checkpoint, or into another variable of the family."""
        saved = reader.node >= 0 and self.sheets[body].nodes[reader.node].op == "SaveV2"
        return (saved and reader.position >= FIRST_SAVED) or (
            self._is_write(body, reader) and self._node(read).op == "ReadVariableOp"
        )

    def _is_known_write(self, write: Place) -> bool:
        initial = not write.body and self._node(write).name in self.initializers
        return write in self.writes.edits or write in self.writes.copies or initial

    def _has_kernel(self, node: Any) -> bool:
        kind = signatures.kind_of(node.op)
        assert kind is not None  # noqa: S101 - TensorFlow registers all that read variables
        return kernels.can_run(kind, kind.values(node), "dtype", self.low, "CPU")

    def lower(self, family: Family) -> None:
        """Change the type of a family, and of all that moves its values."""
        for place in self._touching(family):
            self._node(place).attr["dtype"].type = self.low
        for number in family.objects:
            self.objects.nodes[number].variable.dtype = self.low
        for body, position in family.arguments:
            for data in self.library[body].signature.input_arg[position].handle_data:
                data.dtype = self.low
        for read in family.reads:
            self._lower_trail(self._trail(read))
        for write in family.writes:
            self._lower_write(write)

    def _lower_trail(self, trail: Trail) -> None:
        for edit in trail.edits:
            self._edit(edit)
        for body, position in trail.arguments:
            self.library[body].signature.input_arg[position].type = self.low
        for body, source in trail.sources:
            self.sheets[body].skip_casts(source)
        for body, reader in trail.ends:
            if self.sheets[body].nodes[reader.node].op == "SaveV2":
                self._edit(Edit(Place(body, reader.node), "dtypes", reader.position - FIRST_SAVED))

    def _lower_write(self, write: Place) -> None:
        for edit in self.writes.edits.get(write, ()):
            self._edit(edit)
        if write not in self.writes.edits and write not in self.writes.copies:
            node, sheet = self._node(write), self.sheets[write.body]
            node.input[1] = sheet.add_cast(node.input[1], f"{node.name}/cast_to_low", signatures.FLOAT, self.low)

    def _edit(self, edit: Edit) -> None:
        value = self._node(edit.place).attr[edit.attribute]
        if edit.entry is None:
            value.type = self.low
        else:
            value.list.type[edit.entry] = self.low

    def names(self, family: Family) -> list[str]:
        """The names of the variables of a family, for people."""
        saved = [self.objects.nodes[number].variable.name for number in family.objects]
        return [name for name in saved if name] or [self._node(place).name for place in family.makers]
