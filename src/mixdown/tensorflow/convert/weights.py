"""Variables stored in 16 bits, where every reader casts them to 16 bits: `weights="low"`. Start with `store_low`.

A variable is stored in 16 bits if every read of it is cast at once, and if nothing writes it but a restore or its
initializer. The cast would round it at every call; now it is rounded once, to the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from mixdown.tensorflow.convert.body_editor import BodyEditor, Reader
from mixdown.tensorflow.convert.stored_values import store_constants
from mixdown.tensorflow.convert.value_paths import (
    FIRST_SAVED,
    Edit,
    Family,
    HandleFamilies,
    NodePlace,
    ValuePath,
    ValuePaths,
    is_float,
    saved_names,
)
from mixdown.tensorflow.protos import kernels, signatures
from mixdown.tensorflow.protos.bodies import function_body, graph_body, reachable
from mixdown.tensorflow.protos.library import by_name
from mixdown.tensorflow.protos.saved_names import variables

if TYPE_CHECKING:
    from collections.abc import Mapping


class Stored(NamedTuple):
    """What is stored in 16 bits."""

    variables: tuple[str, ...] = ()
    keys: frozenset[str] = frozenset()  # their names in the checkpoint
    constants: int = 0


def store_low(meta_graph: Any, low: int, object_keys: Mapping[int, str], preserved: set[str]) -> Stored:
    """Store variables and constants in 16 bits wherever nothing reads them in float32, in place.

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
    count = sum(store_constants(editor, preserved if not name else set()) for name, editor in model.editors.items())
    for editor in model.editors.values():
        editor.finish()
    names = sorted({name for family in chosen for name in model.names(family)})
    return Stored(tuple(names), frozenset(key for family in chosen for key in family.keys), count)


@dataclass
class _Writes:
    """Where the values of writes come from, as far as that is followed."""

    edits: dict[NodePlace, list[Edit]] = field(default_factory=dict)  # of restores
    copies: set[NodePlace] = field(default_factory=set)  # from another variable


class _Model:
    """A saved graph, its functions and its Python objects."""

    def __init__(self, meta_graph: Any, low: int) -> None:
        graph_def, self.objects, self.low = meta_graph.graph_def, meta_graph.object_graph_def, low
        self.library = by_name(graph_def)
        self.initializers = {variable.initializer_name for variable in variables(meta_graph)}
        roots = [graph_body(graph_def)]
        roots += [function_body(self.library[name]) for name in self.objects.concrete_functions if name in self.library]
        used = {root.function for root in roots if root.function}.union(*(reachable(r, self.library) for r in roots))
        self.editors = {"": BodyEditor(graph_def, self.library, low)}
        self.editors |= {name: BodyEditor(self.library[name], self.library, low) for name in sorted(used)}
        self.handles = HandleFamilies(self.editors, self.library)
        self.paths = ValuePaths(self.editors, self.library)
        self.writes = _Writes()

    def connect_objects(self, object_keys: Mapping[int, str]) -> None:
        """Note which Python object is bound to which argument of a function, and its name in the checkpoint."""
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
        for body, editor in self.editors.items():
            for index, node in enumerate(editor.nodes):
                if node.op == "RestoreV2":
                    self._restore(NodePlace(body, index), saved_names(editor, index))
                elif node.op == "ReadVariableOp":
                    self._copy(NodePlace(body, index))
        return self.handles.families()

    def _handle(self, place: NodePlace) -> tuple[str, Any]:
        return place.body, self.editors[place.body].inputs[place.node][0]

    def _restore(self, place: NodePlace, names: list[str]) -> None:
        """Connect the variables that a RestoreV2 fills with their names in the checkpoint."""
        for port, name in enumerate(names):
            self.handles.note(("key", name), "keys", name)
            path = self.paths.follow(place.body, (place.node, port))
            if all(self._is_write(*end) for end in path.ends):
                for body, reader in path.ends:
                    target = NodePlace(body, reader.node)
                    self.writes.edits[target] = [*path.edits, Edit(place, "dtypes", port)]
                    self.handles.join(("key", name), self._handle(target))
            else:
                self.handles.note(("key", name), "spoiled")

    def _copy(self, place: NodePlace) -> None:
        """Connect a variable with those that are written with its value."""
        for body, reader in self.paths.follow(place.body, (place.node, 0)).ends:
            if self._is_write(body, reader):
                self.writes.copies.add(NodePlace(body, reader.node))
                self.handles.join(self._handle(place), self._handle(NodePlace(body, reader.node)))

    def _is_write(self, body: str, reader: Reader) -> bool:
        return (
            reader.node >= 0 and self.editors[body].nodes[reader.node].op == "AssignVariableOp" and reader.position == 1
        )

    def may_be_low(self, family: Family) -> bool:
        """Whether a family is float32, restored, only written when it is, and read in 16 bits."""
        if family.spoiled or not family.keys or not all(is_float(self._node(p)) for p in self._touching(family)):
            return False
        if not all(self.objects.nodes[number].variable.dtype == signatures.FLOAT for number in family.objects):
            return False
        ends = [(read, end) for read in family.reads for end in self._path(read).ends]
        return (
            any(self._is_low(*end) for _, end in ends)
            and all(self._is_low(*end) or self._is_stored(read, *end) for read, end in ends)
            and all(self._is_known_write(write) for write in family.writes)
            and all(self._has_kernel(self._node(read)) for read in family.reads)
        )

    def _node(self, place: NodePlace) -> Any:
        return self.editors[place.body].nodes[place.node]

    def _touching(self, family: Family) -> list[NodePlace]:
        return [*family.makers, *family.reads, *family.writes]

    def _path(self, read: NodePlace) -> ValuePath:
        return self.paths.follow(read.body, (read.node, 0))

    def _is_low(self, body: str, reader: Reader) -> bool:
        return self.editors[body].is_lowered(reader)

    def _is_stored(self, read: NodePlace, body: str, reader: Reader) -> bool:
        """Whether a value goes to a checkpoint, or into another variable of the family."""
        saved = reader.node >= 0 and self.editors[body].nodes[reader.node].op == "SaveV2"
        return (saved and reader.position >= FIRST_SAVED) or (
            self._is_write(body, reader) and self._node(read).op == "ReadVariableOp"
        )

    def _is_known_write(self, write: NodePlace) -> bool:
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
            self._lower_path(self._path(read))
        for write in family.writes:
            self._lower_write(write)

    def _lower_path(self, path: ValuePath) -> None:
        for edit in path.edits:
            self._edit(edit)
        for body, position in path.arguments:
            self.library[body].signature.input_arg[position].type = self.low
        for body, source in path.sources:
            self.editors[body].skip_casts(source)
        for body, reader in path.ends:
            if self.editors[body].nodes[reader.node].op == "SaveV2":
                self._edit(Edit(NodePlace(body, reader.node), "dtypes", reader.position - FIRST_SAVED))

    def _lower_write(self, write: NodePlace) -> None:
        for edit in self.writes.edits.get(write, ()):
            self._edit(edit)
        if write not in self.writes.edits and write not in self.writes.copies:
            node, editor = self._node(write), self.editors[write.body]
            node.input[1] = editor.add_cast(node.input[1], f"{node.name}/cast_to_low", signatures.FLOAT, self.low)

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
