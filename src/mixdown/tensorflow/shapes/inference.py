"""The shapes of the values of a graph and of the functions it calls, inferred by TensorFlow without running anything.

Start with `Shapes`. Nothing is inferred before the first shape is asked for, and then at once whatever of a body is
expected to be asked for, or all of it if that was too little. A function's arguments have the shapes it was traced
with; of a variable that is an argument the caller must tell (see `handle_of`).
"""

from __future__ import annotations

from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import tensorflow as tf

from mixdown.core.graph import ShapesOnDemand
from mixdown.tensorflow.protos import bodies
from mixdown.tensorflow.protos.c_graph import CGraph
from mixdown.tensorflow.runtime.private import Operation
from mixdown.tensorflow.shapes.rank_limits import UNKNOWN, doubtful, tamed
from mixdown.tensorflow.shapes.safe_folding import MOST_DIMENSIONS, folding

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mixdown.core.graph import Shape
    from mixdown.tensorflow.reading.builder import Chapter
    from mixdown.tensorflow.shapes.rank_limits import Use

GIVEN = "_output_shapes"
"""The attribute under which nodes and arguments carry shapes that are known already."""

DEEPEST = 40
"""Calls inside calls that are followed: Python's own stack has an end."""

MOST_ELEMENTS = 2**63 - 1
"""Of a tensor, by TensorFlow's own rule: a shape that asks for more is none."""

PLAIN_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
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


class Shapes(ShapesOnDemand):
    """Per tensor of a Graph, its shape; None, also for one dimension, where it is not known."""

    def __init__(
        self,
        places: Sequence[Place],
        chapters: Sequence[Chapter],
        library: Mapping[str, Any],
        handles: Mapping[int, Handle],
    ) -> None:
        self._places = places
        self._bodies = _Bodies(chapters, library, handles)
        self._known: dict[int, Shape] = {}

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, tensor: Any) -> Any:
        if tensor not in self._known:
            self._known[tensor] = self._bodies.shape(self._places[tensor])
        return self._known[tensor]

    def expect(self, tensors: Iterable[int]) -> None:
        """Leave out, for a start, whatever has no part in the shapes of these."""
        self._bodies.expect(self._places[tensor] for tensor in tensors)


class _Bodies:
    """The bodies of a tree as TensorFlow graphs, made when asked for."""

    def __init__(self, chapters: Sequence[Chapter], library: Mapping[str, Any], handles: Mapping[int, Handle]) -> None:
        self.chapters, self.library = chapters, library
        self.number = {chapter.body.function: index for index, chapter in enumerate(chapters)}
        self.handles = _spread_handles(chapters, library, self.number, handles)
        self._asked: set[str] = set()
        self._told: Iterable[Place] = ()
        self._expected: dict[int, set[int]] = {}  # per body, nodes; empty if nobody told
        self._calls = cache(self._calls_in)
        self.graph = cache(self._graph)
        self.operation = cache(self._operation)

    def expect(self, places: Iterable[Place]) -> None:
        """Learn where the values are made that will be asked for; looked at when the first one is."""
        self._told = places

    def _look_ahead(self) -> None:
        """Sort what is expected by body. Results of functions may always be asked for."""
        if not self._told:
            return
        self._expected = {
            index: {node for node, _ in chapter.wiring.results if node >= 0}
            for index, chapter in enumerate(self.chapters)
        }
        for place in self._told:
            if place.node >= 0:
                self._expected[place.body].add(place.node)
        self._told = ()

    def shape(self, place: Place) -> Shape:
        """The shape of one value."""
        chapter = self.chapters[place.body]
        if place.node < 0:
            return sizes(_argument_shape(chapter, -1 - place.node))
        node = chapter.body.nodes[place.node]
        if GIVEN in node.attr:
            given = node.attr[GIVEN].list.shape
            return sizes(given[place.port]) if place.port < len(given) else None
        if callee := self._calls(place.body).get(place.node):
            return self._result(callee, place.port)
        operation = self.operation(place.body, node.name)
        return None if operation is None else _static(operation.outputs[place.port].shape)

    def _result(self, function: str, port: int) -> Shape:
        """The shape of a function's result; not known in a recursion, nor in a call that is too deep down."""
        if function in self._asked or len(self._asked) == DEEPEST:
            return None
        index = self.number[function]
        self._asked.add(function)
        try:
            return self.shape(Place(index, *self.chapters[index].wiring.results[port]))
        finally:
            self._asked.discard(function)

    def _operation(self, body: int, name: str) -> Any:
        self._look_ahead()
        for whole in (not self._expected, True):
            graph = self.graph(body, whole=whole)
            if graph is not None and name in graph.operations:
                return Operation._from_c_op(graph.operations[name], graph.graph)
        return None

    def _graph(self, body: int, *, whole: bool) -> CGraph | None:
        """A body as a TensorFlow graph, None if TensorFlow cannot import it alone: then its shapes are not known."""
        chapter = self.chapters[body]
        within = range(len(chapter.body.nodes)) if whole else chapter.wiring.upstream(self._expected[body])
        may = folding(chapter, within)
        doubts = doubtful(chapter, within, may.bounds)
        graph = _imported(self._written(body, within, may.forbidden, set(doubts)))
        if not doubts or graph is None:
            return graph
        long = {use for use, source in doubts.items() if not self._is_short(graph, body, source)}
        return graph if len(long) == len(doubts) else _imported(self._written(body, within, may.forbidden, long))

    def _is_short(self, graph: CGraph, body: int, source: tuple[int, int]) -> bool:
        """Whether a value that is a shape turned out to be short."""
        name, _, port = self._input(self.chapters[body], source).partition(":")
        operation = Operation._from_c_op(graph.operations[name], graph.graph)
        shape = operation.outputs[int(port or 0)].shape
        return bool(shape.rank == 1 and shape[0] is not None and shape[0] <= MOST_DIMENSIONS)

    def _written(self, body: int, within: Sequence[int], forbidden: set[int], long: set[Use]) -> Any:
        """Some nodes of a body as a GraphDef: arguments become placeholders and variables, calls their results."""
        chapter = self.chapters[body]
        nodes = tamed(chapter, within, forbidden, long)
        if not chapter.body.function and not self._calls(body):
            proto = chapter.body.proto
            return type(proto)(node=map(_unconditional, nodes), library=proto.library, versions=proto.versions)
        graph_def = tf.compat.v1.GraphDef()
        graph_def.versions.producer = tf.version.GRAPH_DEF_VERSION
        for name in self._called_in(chapter):
            graph_def.library.function.add().CopyFrom(self.library[name])
        for index, (_, dtype) in enumerate(chapter.body.arguments):
            node = graph_def.node.add(name=_argument(index))
            _write_end(node, dtype, _argument_shape(chapter, index), self.handles[body].get(index))
        for index, node in zip(within, nodes, strict=False):
            self._write_node(graph_def, chapter, index, node)
        graph_def.node.extend(nodes[len(within) :])
        return graph_def

    def _calls_in(self, body: int) -> dict[int, str]:
        """The plain calls in a body, and the function that each of them calls."""
        nodes = self.chapters[body].body.nodes
        found = bodies.calls(nodes, self.library)
        return {index: names[0] for index, names in found if _is_plain_call(nodes[index], self.library)}

    def _called_in(self, chapter: Chapter) -> list[str]:
        """The functions that a body calls as if they were ops; to import loops and branches, theirs are not needed."""
        calls = self._calls(chapter.index)
        nodes = (node for index, node in enumerate(chapter.body.nodes) if index not in calls)
        return sorted({node.op for node in nodes if node.op in self.library})

    def _write_node(self, graph_def: Any, chapter: Chapter, index: int, node: Any) -> None:
        if callee := self._calls(chapter.index).get(index):
            results = self.library[callee].signature.output_arg
            for port, result in enumerate(results):
                shape = _proto(self._result(callee, port))
                _write_end(graph_def.node.add(name=_output(node.name, port)), result.type, shape, None)
            graph_def.node.add(name=node.name, op="NoOp")
            return
        copy = graph_def.node.add()
        copy.CopyFrom(node)
        sources = chapter.wiring.inputs[index]
        cuts = [text.startswith(UNKNOWN) for text in node.input[: len(sources)]]
        inputs = [self._input(chapter, source) for source in sources]
        copy.input[:] = [node.input[at] if is_cut else inputs[at] for at, is_cut in enumerate(cuts)]

    def _input(self, chapter: Chapter, source: tuple[int, int]) -> str:
        maker, port = source
        if maker < 0:
            return _argument(-1 - maker)
        node = chapter.body.nodes[maker]
        return _output(node.name, port) if maker in self._calls(chapter.index) else f"{node.name}:{port}"


def _unconditional(node: Any) -> Any:
    """A node that does not wait for others, which may not be there; itself if it waits for none."""
    if not node.input or node.input[-1][:1] != "^":  # they come last
        return node
    copy = type(node)()
    copy.CopyFrom(node)
    copy.input[:] = [text for text in node.input if text[:1] != "^"]
    return copy


def _imported(graph_def: Any) -> CGraph | None:
    graph = CGraph()
    try:
        graph.add(graph_def)
    except (tf.errors.OpError, ValueError):
        return None
    return graph


def handle_of(tensor: Any) -> Handle | None:
    """The variable behind an eager resource tensor, None if it is none or TensorFlow does not tell."""
    data = getattr(tensor, "_handle_data", None)
    if data is None or not data.is_set or not data.shape_and_type:
        return None
    return Handle(data.shape_and_type[0].dtype, data.shape_and_type[0].shape)


def sizes(shape: Any) -> Shape:
    """A TensorShapeProto as plain numbers."""
    if shape is None or shape.unknown_rank or len(shape.dim) > MOST_DIMENSIONS:
        return None
    return _possible(tuple(dim.size if dim.size >= 0 else None for dim in shape.dim))


def _static(shape: Any) -> Shape:
    return None if shape.rank is None else _possible(tuple(shape.as_list()))


def _possible(shape: tuple[int | None, ...]) -> Shape:
    return shape if prod(size or 1 for size in shape) <= MOST_ELEMENTS else None


def _proto(shape: Shape) -> Any:
    return tf.TensorShape(shape).as_proto()


def _argument(index: int) -> str:
    return f"argument_{index}"


def _output(name: str, port: int) -> str:
    return f"{name}/output_{port}"


def _is_plain_call(node: Any, library: Mapping[str, Any]) -> bool:
    return node.op in PLAIN_CALLS or node.op in library


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
