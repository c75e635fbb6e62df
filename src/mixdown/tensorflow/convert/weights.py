"""Variables stored in 16 bits, where every reader casts them to 16 bits: `weights="low"`. Start with `store_low`.

A variable is stored in 16 bits if every read of it is cast at once, and if nothing writes it but a restore or its
initializer. The cast would round it at every call; now it is rounded once, to the same bits.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from mixdown.tensorflow.convert.body_editor import BodyEditor, Reader
from mixdown.tensorflow.convert.stored_values import store_constants
from mixdown.tensorflow.convert.value_paths import Edit, Family, HandleFamilies, ValuePath, ValuePaths
from mixdown.tensorflow.protos import kernels, signatures
from mixdown.tensorflow.protos.bodies import function_body, graph_body, reachable
from mixdown.tensorflow.protos.library import by_name
from mixdown.tensorflow.protos.saved_names import variables

FIRST_SAVED = 3  # the first input of SaveV2 that is a tensor to save


class Stored(NamedTuple):
    """What is stored in 16 bits."""

    variables: tuple[str, ...] = ()
    keys: frozenset[str] = frozenset()  # their names in the checkpoint
    constants: int = 0


def store_low(meta_graph: Any, low: int, object_keys: Mapping[int, str], preserved: set[str]) -> Stored:
    """Store variables and constants of a rewritten graph in 16 bits wherever nothing reads them in float32, in place.

    `object_keys` are the names in the checkpoint of the variables in the graph of Python objects.
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
        self.restored: dict[Reader, list[Edit]] = {}  # writes of values from a checkpoint, and what changes with them
        self.copied: set[Reader] = set()  # writes of values of other variables

    def connect_objects(self, object_keys: Mapping[int, str]) -> None:
        """Note which Python object is bound to which argument of a function, and its name in the checkpoint."""
        known = {name: saved for name, saved in self.objects.concrete_functions.items() if name in self.library}
        for name, saved in known.items():
            first = len(self.library[name].signature.input_arg) - len(saved.bound_inputs)
            for position, number in enumerate(saved.bound_inputs):
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
                    self._restore(body, index)
                elif node.op == "ReadVariableOp":
                    self._copy(body, index)
        return self.handles.families()

    def _handle(self, body: str, node: int) -> tuple[str, Any]:
        return body, self.editors[body].inputs[node][0]

    def _restore(self, body: str, index: int) -> None:
        """Connect the variables that a RestoreV2 fills with their names in the checkpoint, if these are constant."""
        editor = self.editors[body]
        node = editor.inputs[index][1][0]
        constant = node >= 0 and editor.nodes[node].op == "Const"
        names = tf.make_ndarray(editor.nodes[node].attr["value"].tensor) if constant else ()
        for port, name in enumerate(text.decode() for text in names):
            self.handles.note(("key", name), "keys", name)
            path = self.paths.follow(body, index, port)
            if all(map(self._is_write, path.ends)):
                for write in path.ends:
                    self.restored[write] = [*path.edits, (editor.nodes[index], "dtypes", port)]
                    self.handles.join(("key", name), self._handle(write.body, write.node))
            else:
                self.handles.note(("key", name), "spoiled")

    def _copy(self, body: str, index: int) -> None:
        """Connect a variable with those that are written with its value."""
        for write in filter(self._is_write, self.paths.follow(body, index).ends):
            self.copied.add(write)
            self.handles.join(self._handle(body, index), self._handle(write.body, write.node))

    def _is_write(self, reader: Reader) -> bool:
        return reader.node >= 0 and reader.position == 1 and self._node(reader).op == "AssignVariableOp"

    def may_be_low(self, family: Family) -> bool:
        """Whether a family is float32, restored, only written when it is, and read in 16 bits."""
        types = {node.attr["dtype"].type for node in self._touching(family)}
        if family.spoiled or not family.keys or types - {signatures.FLOAT}:
            return False
        if not all(self.objects.nodes[number].variable.dtype == signatures.FLOAT for number in family.objects):
            return False
        ends = [(read, end) for read in family.reads for end in self.paths.follow(read.body, read.node).ends]
        return (
            any(self._is_low(end) for _, end in ends)
            and all(self._is_low(end) or self._is_stored(read, end) for read, end in ends)
            and all(w in self.restored or w in self.copied or self._is_initial(w) for w in family.writes)
            and all(self._has_kernel(self._node(read)) for read in family.reads)
        )

    def _node(self, place: Reader) -> Any:
        return self.editors[place.body].nodes[place.node]

    def _touching(self, family: Family) -> list[Any]:
        return [self._node(place) for place in (*family.makers, *family.reads, *family.writes)]

    def _is_low(self, reader: Reader) -> bool:
        return self.editors[reader.body].is_lowered(reader)

    def _is_stored(self, read: Reader, end: Reader) -> bool:
        """Whether a value goes to a checkpoint, or into another variable of the family."""
        saved = end.node >= 0 and self._node(end).op == "SaveV2" and end.position >= FIRST_SAVED
        return saved or (self._is_write(end) and self._node(read).op == "ReadVariableOp")

    def _is_initial(self, write: Reader) -> bool:
        return not write.body and self._node(write).name in self.initializers

    def _has_kernel(self, node: Any) -> bool:
        kind = signatures.kind_of(node.op)
        assert kind is not None  # noqa: S101 - TensorFlow registers all that read variables
        return kernels.can_run(kind, kind.values(node), "dtype", self.low, "CPU")

    def lower(self, family: Family) -> None:
        """Change the dtype of a family, and of all that moves its values."""
        for node in self._touching(family):
            node.attr["dtype"].type = self.low
        for number in family.objects:
            self.objects.nodes[number].variable.dtype = self.low
        for body, position in family.arguments:
            for data in self.library[body].signature.input_arg[position].handle_data:
                data.dtype = self.low
        for read in family.reads:
            self._lower_path(self.paths.follow(read.body, read.node))
        for write in family.writes:
            self._lower_write(write)

    def _lower_path(self, path: ValuePath) -> None:
        self._edit(path.edits)
        for body, position in path.arguments:
            self.library[body].signature.input_arg[position].type = self.low
        for body, source in path.sources:
            self.editors[body].skip_casts(source)
        for end in path.ends:
            if self._node(end).op == "SaveV2":
                self._edit([(self._node(end), "dtypes", end.position - FIRST_SAVED)])

    def _lower_write(self, write: Reader) -> None:
        self._edit(self.restored.get(write, ()))
        if write not in self.restored and write not in self.copied:
            node, editor = self._node(write), self.editors[write.body]
            node.input[1] = editor.add_cast(node.input[1], f"{node.name}/cast_to_low", signatures.FLOAT, self.low)

    def _edit(self, edits: Iterable[Edit]) -> None:
        for node, attribute, entry in edits:
            if entry is None:
                node.attr[attribute].type = self.low
            else:
                node.attr[attribute].list.type[entry] = self.low

    def names(self, family: Family) -> list[str]:
        """The names of the variables of a family, for people."""
        saved = [self.objects.nodes[number].variable.name for number in family.objects]
        return [name for name in saved if name] or [self._node(place).name for place in family.makers]
