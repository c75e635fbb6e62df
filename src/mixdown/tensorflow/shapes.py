"""The shapes of the values of a graph and of the functions it calls, inferred by TensorFlow without running anything.

Start with `Shapes`. Nothing is inferred before the first shape is asked for, and then a whole body at once. A
function's arguments have the shapes it was traced with; of a variable that is an argument the caller must tell (see
`handle_of`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import tensorflow as tf

# Private: the public importer makes a Python object of every node, whether its shape is asked for or not. Checked on
# TensorFlow 2.16 and 2.21.
from tensorflow.python.framework.ops import Operation

from mixdown.tensorflow import bodies
from mixdown.tensorflow.c_graph import CGraph

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mixdown.core.graph import Shape
    from mixdown.tensorflow.draft import Chapter

GIVEN = "_output_shapes"
"""The attribute under which nodes and arguments carry shapes that are known already."""

RETYPED_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
"""Calls whose own shape function knows nothing of their outputs; those of loops and branches do."""


class Handle(NamedTuple):
    """A variable behind a resource: what its value looks like."""

    dtype: int
    shape: Any  # a TensorShapeProto


class Place(NamedTuple):
    """Where a value is made: the body, the node (or argument -1 - node), the port."""

    body: int
    node: int
    port: int


class Shapes(Sequence["Shape"]):
    """Per tensor of a Graph, its shape; None, also for one dimension, where it is not known."""

    def __init__(
        self,
        places: Sequence[Place],
        chapters: Sequence[Chapter],
        library: Mapping[str, Any],
        handles: Mapping[int, Handle],
    ) -> None:
        self._places = places
        self._bodies: _Bodies | None = _Bodies(chapters, library, handles)
        self._known: dict[int, Shape] = {}

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, tensor: Any) -> Any:
        if tensor not in self._known and self._bodies is not None:
            self._known[tensor] = self._bodies.shape(self._places[tensor])
        return self._known.get(tensor)

    def close(self, tensors: Iterable[int]) -> None:
        """Keep the shapes of these tensors and of those asked for so far, and let go of the graphs behind them."""
        for tensor in tensors:
            self[tensor]
        self._bodies = None


class _Bodies:
    """The bodies of a tree as TensorFlow graphs, made when asked for."""

    def __init__(self, chapters: Sequence[Chapter], library: Mapping[str, Any], handles: Mapping[int, Handle]) -> None:
        self.chapters, self.library = chapters, library
        self.number = {chapter.body.function: index for index, chapter in enumerate(chapters)}
        self.handles = _spread_handles(chapters, library, self.number, handles)
        self._asked: set[str] = set()
        self.graph = cache(self._graph)
        self.operation = cache(self._operation)

    def shape(self, place: Place) -> Shape:
        """The shape of one value."""
        chapter = self.chapters[place.body]
        if place.node < 0:
            return sizes(_argument_shape(chapter, -1 - place.node))
        node = chapter.body.nodes[place.node]
        if GIVEN in node.attr:
            given = node.attr[GIVEN].list.shape
            return sizes(given[place.port]) if place.port < len(given) else None
        if callee := _retyped(node, self.library):
            return self._result(callee, place.port)
        operation = self.operation(place.body, node.name)
        return None if operation is None else _static(operation.outputs[place.port].shape)

    def _result(self, function: str, port: int) -> Shape:
        """The shape of a function's result; not known while the function itself is asked, as in a recursion."""
        if function in self._asked:
            return None
        index = self.number[function]
        self._asked.add(function)
        try:
            return self.shape(Place(index, *self.chapters[index].wiring.results[port]))
        finally:
            self._asked.discard(function)

    def _operation(self, body: int, name: str) -> Any:
        graph = self.graph(body)
        return None if graph is None else Operation._from_c_op(graph.operations[name], graph.graph)

    def _graph(self, body: int) -> CGraph | None:
        """A body as a TensorFlow graph, None if TensorFlow cannot import it alone: then its shapes are not known."""
        graph = CGraph()
        try:
            graph.add(self._written(body))
        except (tf.errors.OpError, ValueError):
            return None
        return graph

    def _written(self, body: int) -> Any:
        """A body as a GraphDef: arguments become placeholders and variables, calls their results."""
        chapter = self.chapters[body]
        if not chapter.body.function and not any(_retyped(node, self.library) for node in chapter.body.nodes):
            return chapter.body.proto
        graph_def = tf.compat.v1.GraphDef()
        graph_def.versions.producer = tf.version.GRAPH_DEF_VERSION
        for name in bodies.reachable(chapter.body, self.library):
            graph_def.library.function.add().CopyFrom(self.library[name])
        for index, (_, dtype) in enumerate(chapter.body.arguments):
            node = graph_def.node.add(name=_argument(index))
            _write_end(node, dtype, _argument_shape(chapter, index), self.handles[body].get(index))
        for index, node in enumerate(chapter.body.nodes):
            self._write_node(graph_def, chapter, index, node)
        return graph_def

    def _write_node(self, graph_def: Any, chapter: Chapter, index: int, node: Any) -> None:
        if callee := _retyped(node, self.library):
            results = self.library[callee].signature.output_arg
            for port, result in enumerate(results):
                shape = _proto(self._result(callee, port))
                _write_end(graph_def.node.add(name=_output(node.name, port)), result.type, shape, None)
            graph_def.node.add(name=node.name, op="NoOp")
            return
        copy = graph_def.node.add()
        copy.CopyFrom(node)
        copy.input[:] = [*(self._input(chapter, source) for source in chapter.wiring.inputs[index])]

    def _input(self, chapter: Chapter, source: tuple[int, int]) -> str:
        maker, port = source
        if maker < 0:
            return _argument(-1 - maker)
        node = chapter.body.nodes[maker]
        return _output(node.name, port) if _retyped(node, self.library) else f"{node.name}:{port}"


def handle_of(tensor: Any) -> Handle | None:
    """The variable behind an eager resource tensor, None if it is none or TensorFlow does not tell."""
    data = getattr(tensor, "_handle_data", None)
    if data is None or not data.is_set or not data.shape_and_type:
        return None
    return Handle(data.shape_and_type[0].dtype, data.shape_and_type[0].shape)


def sizes(shape: Any) -> Shape:
    """A TensorShapeProto as plain numbers."""
    if shape is None or shape.unknown_rank:
        return None
    return tuple(dim.size if dim.size >= 0 else None for dim in shape.dim)


def _static(shape: Any) -> Shape:
    return None if shape.rank is None else tuple(shape.as_list())


def _proto(shape: Shape) -> Any:
    return tf.TensorShape(shape).as_proto()


def _argument(index: int) -> str:
    return f"argument_{index}"


def _output(name: str, port: int) -> str:
    return f"{name}/output_{port}"


def _retyped(node: Any, library: Mapping[str, Any]) -> str:
    """The function that a plain call calls, "" for other nodes."""
    if node.op in RETYPED_CALLS or node.op in library:
        return next(iter(bodies.followed(node, library)), "")
    return ""


def _argument_shape(chapter: Chapter, index: int) -> Any:
    """The shape that a function was traced with, None if it does not say."""
    attributes = chapter.body.proto.arg_attr[index].attr if index in chapter.body.proto.arg_attr else {}
    given = attributes[GIVEN].list.shape if GIVEN in attributes else ()
    return given[0] if given else None


def _write_end(node: Any, dtype: int, shape: Any, handle: Handle | None) -> None:
    """Let a node stand for a value that comes from elsewhere."""
    node.op = "Placeholder" if handle is None else "VarHandleOp"
    node.attr["dtype"].type = dtype if handle is None else handle.dtype
    known = shape if handle is None else handle.shape
    if known is None:
        node.attr["shape"].shape.unknown_rank = True
    else:
        node.attr["shape"].shape.CopyFrom(known)


def _spread_handles(
    chapters: Sequence[Chapter], library: Mapping[str, Any], number: Mapping[str, int], outermost: Mapping[int, Handle]
) -> list[dict[int, Handle]]:
    """Per body, the variables among its arguments: those of the outermost, handed on from call to call."""
    out: list[dict[int, Handle]] = [dict(outermost), *({} for _ in chapters[1:])]
    queue, seen = [0], {0}
    for index in queue:
        chapter = chapters[index]
        for position, names in bodies.calls(chapter.body.nodes, library):
            skip = 1 if chapter.body.nodes[position].op in bodies.PREDICATED else 0
            sources = [source for source, _ in chapter.wiring.inputs[position][skip:]]
            handed = {i: found for i, maker in enumerate(sources) if (found := _handle(chapter, maker, out[index]))}
            for callee in (number[name] for name in names):
                out[callee] = {**handed, **out[callee]}
                queue.extend({callee} - seen)
                seen.add(callee)
    return out


def _handle(chapter: Chapter, maker: int, arguments: Mapping[int, Handle]) -> Handle | None:
    if maker < 0:
        return arguments.get(-1 - maker)
    node = chapter.body.nodes[maker]
    return Handle(node.attr["dtype"].type, node.attr["shape"].shape) if node.op == "VarHandleOp" else None
