"""The shapes of the values of a graph and of the functions it calls, inferred without running anything.

Start with `Shapes`. Nothing is inferred before the first shape is asked for. What `body_shapes` does not know,
TensorFlow is asked for: the shapes of all values of that body that `expect` announced are inferred at once, and those
of the whole body if another one is needed. The arguments of a function have the shapes it was traced with; variables
among the outermost arguments come from `variable_handles`.
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from functools import cache, cached_property
from math import prod
from typing import Any, NamedTuple

import tensorflow as tf

from mixdown.core.graph import Shape, ShapesOnDemand
from mixdown.tensorflow.protos import bodies
from mixdown.tensorflow.protos.c_graph import CGraph
from mixdown.tensorflow.protos.wiring import Source, WiredBody
from mixdown.tensorflow.runtime.private import Operation
from mixdown.tensorflow.shapes.body_shapes import BodyShapes
from mixdown.tensorflow.shapes.safe_folding import MOST_DIMENSIONS, UNKNOWN, folding, limited, maybe_long
from mixdown.tensorflow.shapes.variable_handles import Handle, Handles, handles_in_tree, variable_behind

GIVEN = "_output_shapes"
"""The attribute by which nodes and arguments carry shapes that are known already."""

DEEPEST = 40
"""Levels of calls that are followed, to stay within Python's recursion limit."""

MOST_ELEMENTS = 2**63 - 1
"""Of a tensor, by TensorFlow's own rule: a shape that asks for more is treated as unknown."""

PLAIN_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
"""Calls whose shape functions do not infer their outputs, unlike those of loops and branches."""


class Place(NamedTuple):
    """Where a value is made: the body, the node (or argument -1 - node), the port."""

    body: int
    node: int
    port: int


class Shapes(ShapesOnDemand):
    """Per tensor of a Graph, which is made at one of `places`, its shape; None, also for one dimension, if not known.

    The outermost body of the tree calls the others; the handles are those of the variables among its arguments.
    """

    def __init__(
        self,
        places: Sequence[Place],
        tree: Sequence[WiredBody],
        library: Mapping[str, Any],
        handles: Mapping[int, Handle],
    ) -> None:
        self._places, self._tree, self._library, self._outermost_handles = places, tree, library, handles
        self._number = {wired.body.function: index for index, wired in enumerate(tree)}
        self._announced: Iterable[int] = ()
        self._expected: dict[int, set[int]] = {}  # per body, nodes; empty if nothing was announced
        self._entered: set[str] = set()  # the functions whose results are being looked up
        self._shape = cache(lambda tensor: self._shape_at(places[tensor]))
        self._calls = cache(self._plain_calls)
        self._graph = cache(self._import)
        self._own = cache(self._body_shapes)
        self._operation = cache(self._find_operation)

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, tensor: Any) -> Any:
        return self._shape(tensor)

    def expect(self, tensors: Iterable[int]) -> None:
        """Announce which shapes will be asked for, so that nothing else need be inferred at first."""
        self._announced = tensors

    @cached_property
    def _handles(self) -> list[Handles]:
        return handles_in_tree(self._tree, self._library, self._outermost_handles)

    def _shape_at(self, place: Place) -> Shape:
        shape = self._own(place.body).shape((place.node, place.port))
        return None if shape is None else _possible(shape)

    def _body_shapes(self, body: int) -> BodyShapes:
        wired = self._tree[body]

        def given(node: int) -> tuple[Shape, ...] | None:
            if node < 0:
                return (_sizes(_argument_shape(wired, -1 - node)),)
            proto = wired.body.nodes[node]
            if GIVEN in proto.attr:
                noted = proto.attr[GIVEN].list.shape
                return (*map(_sizes, noted), *[None] * (len(wired.signatures[node].outputs) - len(noted)))
            if proto.op == "ReadVariableOp":
                variable = variable_behind(wired, wired.inputs[node][0][0], self._handles[body])
                return None if variable is None else (_sizes(variable.shape),)
            return None

        return BodyShapes(wired, lambda source: self._asked(Place(body, *source)), given)

    def _asked(self, place: Place) -> Shape:
        """The shape of a value that `body_shapes` does not know."""
        if callee := self._calls(place.body).get(place.node):
            return self._result(callee, place.port)
        operation = self._operation(place.body, self._tree[place.body].body.nodes[place.node].name)
        shape = None if operation is None else operation.outputs[place.port].shape
        return None if shape is None or shape.rank is None else tuple(shape.as_list())

    def _result(self, function: str, port: int) -> Shape:
        """The shape of a function's result, None in a recursion and in a call that is nested too deeply."""
        if function in self._entered or len(self._entered) == DEEPEST:
            return None
        index = self._number[function]
        self._entered.add(function)
        try:
            return self._shape_at(Place(index, *self._tree[index].results[port]))
        finally:
            self._entered.discard(function)

    def _plain_calls(self, body: int) -> dict[int, str]:
        """The nodes of a body that are plain calls, and the function that each of them calls."""
        nodes = self._tree[body].body.nodes
        found = ((index, nodes[index].op, names[0]) for index, names in bodies.calls(nodes, self._library))
        return {index: name for index, op, name in found if op in PLAIN_CALLS or op in self._library}

    def _find_operation(self, body: int, name: str) -> Any:
        self._sort_announced()
        for whole in (not self._expected, True):
            graph = self._graph(body, whole=whole)
            if graph is not None and name in graph.operations:
                return Operation._from_c_op(graph.operations[name], graph.graph)
        return None

    def _sort_announced(self) -> None:
        """Sort what was announced by body. Results of functions are always expected."""
        if not self._announced:
            return
        results = ((index, wired.results) for index, wired in enumerate(self._tree))
        self._expected = {index: {node for node, _ in sources if node >= 0} for index, sources in results}
        for place in (self._places[tensor] for tensor in self._announced):
            if place.node >= 0:
                self._expected[place.body].add(place.node)
        self._announced = ()

    def _import(self, body: int, *, whole: bool) -> CGraph | None:
        """A body as a TensorFlow graph, None if TensorFlow cannot import it alone: then its shapes are not known."""
        wired = self._tree[body]
        within = range(len(wired.body.nodes)) if whole else wired.upstream(self._expected[body])
        forbidden, bounds = folding(wired, within)
        doubts = maybe_long(wired, within, bounds)
        graph = _imported(self._written(wired, within, limited(wired, within, forbidden, doubts)))
        if not doubts or graph is None:
            return graph
        long = {each for each, source in doubts.items() if not self._is_short(graph, wired, source)}
        if len(long) == len(doubts):
            return graph
        return _imported(self._written(wired, within, limited(wired, within, forbidden, long)))

    def _is_short(self, graph: CGraph, wired: WiredBody, source: Source) -> bool:
        """Whether a value that is a shape turned out to be short."""
        name, _, port = self._input(wired, source).partition(":")
        operation = Operation._from_c_op(graph.operations[name], graph.graph)
        shape = operation.outputs[int(port or 0)].shape
        return bool(shape.rank == 1 and shape[0] is not None and shape[0] <= MOST_DIMENSIONS)

    def _written(self, wired: WiredBody, within: Sequence[int], nodes: Sequence[Any]) -> Any:
        """Some nodes of a body as a GraphDef: arguments become placeholders or variables, calls their results."""
        body, calls = wired.body, self._calls(wired.index)
        if not body.function and not calls:
            return type(body.proto)(
                node=map(_unconditional, nodes), library=body.proto.library, versions=body.proto.versions
            )
        graph_def = tf.compat.v1.GraphDef()
        graph_def.versions.producer = tf.version.GRAPH_DEF_VERSION
        # Other functions that are called as if they were ops are needed; those of loops and branches are not.
        others = {node.op for index, node in enumerate(body.nodes) if index not in calls and node.op in self._library}
        graph_def.library.function.extend(self._library[name] for name in sorted(others))
        for index, (_, dtype) in enumerate(body.arguments):
            handle = self._handles[wired.index].get(index)
            _write_placeholder(graph_def, _argument(index), dtype, _argument_shape(wired, index), handle)
        for index, node in zip(within, nodes, strict=False):
            if index in calls:
                self._write_results(graph_def, node.name, calls[index])
            else:
                self._write_node(graph_def, wired, index, node)
        graph_def.node.extend(nodes[len(within) :])
        return graph_def

    def _write_results(self, graph_def: Any, call: str, function: str) -> None:
        for port, result in enumerate(self._library[function].signature.output_arg):
            shape = tf.TensorShape(self._result(function, port)).as_proto()
            _write_placeholder(graph_def, _output(call, port), result.type, shape)
        graph_def.node.add(name=call, op="NoOp")

    def _write_node(self, graph_def: Any, wired: WiredBody, index: int, node: Any) -> None:
        copy = graph_def.node.add()
        copy.CopyFrom(node)
        sources = wired.inputs[index]
        copy.input[:] = [
            text if text.startswith(UNKNOWN) else self._input(wired, source)
            for text, source in zip(node.input[: len(sources)], sources, strict=True)
        ]

    def _input(self, wired: WiredBody, source: Source) -> str:
        """The text by which a node of the written graph reads a value."""
        maker, port = source
        if maker < 0:
            return _argument(-1 - maker)
        name = wired.body.nodes[maker].name
        return _output(name, port) if maker in self._calls(wired.index) else f"{name}:{port}"


def _argument(index: int) -> str:
    return f"argument_{index}"


def _output(call: str, port: int) -> str:
    return f"{call}/output_{port}"


def _unconditional(node: Any) -> Any:
    """A node without control inputs, since the nodes it waits for may be missing; itself if it has none."""
    if not node.input or node.input[-1][:1] != "^":  # they come last
        return node
    copy = deepcopy(node)
    copy.input[:] = [text for text in node.input if text[:1] != "^"]
    return copy


def _imported(graph_def: Any) -> CGraph | None:
    graph = CGraph()
    try:
        graph.add(graph_def)
    except (tf.errors.OpError, ValueError):
        return None
    return graph


def _argument_shape(wired: WiredBody, index: int) -> Any:
    """The shape that a function was traced with, None if it is not noted."""
    attributes = wired.body.proto.arg_attr[index].attr if index in wired.body.proto.arg_attr else {}
    given = attributes[GIVEN].list.shape if GIVEN in attributes else ()
    return given[0] if given else None


def _sizes(shape: Any) -> Shape:
    """A TensorShapeProto as plain numbers."""
    if shape is None or shape.unknown_rank or len(shape.dim) > MOST_DIMENSIONS:
        return None
    return _possible(tuple(dim.size if dim.size >= 0 else None for dim in shape.dim))


def _possible(shape: tuple[int | None, ...]) -> Shape:
    return shape if prod(size or 1 for size in shape) <= MOST_ELEMENTS else None


def _write_placeholder(graph_def: Any, name: str, dtype: int, shape: Any, handle: Handle | None = None) -> None:
    """Add a node that stands for a value from elsewhere, or (with a handle) for a variable."""
    node = graph_def.node.add(name=name, op="Placeholder" if handle is None else "VarHandleOp")
    node.attr["dtype"].type = dtype if handle is None else handle.dtype
    known = shape if handle is None else handle.shape
    if known is None:
        node.attr["shape"].shape.unknown_rank = True
    else:
        node.attr["shape"].shape.CopyFrom(known)
