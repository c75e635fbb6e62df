"""A copy of a function that probes are written into. Start with `ProbedFunction`."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from graphlib import TopologicalSorter
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple, Self

import tensorflow as tf
from tensorflow.core.framework import types_pb2
from tensorflow.core.framework.attr_value_pb2 import AttrValue

from mixdown.core import Graph, Tensor
from mixdown.tensorflow.protos import signatures
from mixdown.tensorflow.protos.bodies import CALLS, reached
from mixdown.tensorflow.protos.library import kind_of, unused
from mixdown.tensorflow.protos.wiring import node_name

PREFIX = "mixdown_probe"
"""The scope of the nodes that are added."""

FLOATS = frozenset({types_pb2.DT_HALF, types_pb2.DT_BFLOAT16, types_pb2.DT_FLOAT, types_pb2.DT_DOUBLE})
OPAQUE = frozenset({types_pb2.DT_RESOURCE, types_pb2.DT_VARIANT})
OLD_CONTROL_FLOW = frozenset({"Switch", "Merge", "Enter", "RefSwitch", "RefMerge", "RefEnter"})
CLOSERS = frozenset({"NextIteration", "RefNextIteration"})  # they close the loops of TensorFlow 1

MOVERS = frozenset(
    {"ExpandDims", "Identity", "PreventGradient", "Reshape", "Snapshot", "Squeeze", "StopGradient", "Transpose"}
)
"""Kinds whose output holds the same numbers as their first input."""


class Port(NamedTuple):
    """An output or an input of a node, an argument or a result of a function."""

    text: str  # how nodes of the same function name the tensor
    dtype: int


class Key(NamedTuple):
    """A tensor of the user's program, the same in every call and copy of its function."""

    op: str
    kind: str
    output: int
    function: str

    @classmethod
    def of(cls, graph: Graph, tensor: Tensor) -> Self:
        """The key of a tensor of a graph that was read."""
        op = graph.ops[graph.sites[tensor.site].op]
        return cls(op.name, op.kind, int(tensor.name.rpartition(":")[2]), op.function)


class ProbedFunction:
    """The copy of one function: its nodes and tensors as they were before any probe, and methods that add nodes."""

    def __init__(self, number: int, function: Any, original: str, library: Mapping[str, Any], known: set[str]) -> None:
        self.number = number  # its place among the copies of a tree
        self.function, self.name = function, str(function.signature.name)
        self.original = original  # the name of the function that it is a copy of
        self.library = library  # the copies that it may call
        self.nodes = list(function.node_def)
        self.by_name = {node.name: node for node in self.nodes}
        self.inserted = self.by_name.keys() - known  # the casts of the plan: `known` are the nodes of the original
        self.arguments = [Port(argument.name, argument.type) for argument in function.signature.input_arg]
        self.results = [Port(function.ret[result.name], result.type) for result in function.signature.output_arg]
        self._taken = {*self.by_name, *(argument.text for argument in self.arguments)}
        self._constants: dict[bytes, str] = {}

    @property
    def can_be_probed(self) -> bool:
        """Whether every node runs when the function runs: not so with the control flow of TensorFlow 1."""
        return not any(node.op in OLD_CONTROL_FLOW for node in self.nodes)

    @cached_property
    def outputs(self) -> dict[str, list[Port]]:
        """Node -> its outputs."""
        return {
            node.name: [Port(f"{node.name}:{text}", dtype) for text, dtype in _ports(node, self.library, "output_arg")]
            for node in self.nodes
        }

    @cached_property
    def inputs(self) -> dict[str, list[Port]]:
        """Node -> its data inputs."""
        return {node.name: inputs_of(node, self.library) for node in self.nodes}

    @cached_property
    def order(self) -> dict[str, int]:
        """Node -> its place: every node follows those it reads, otherwise they stand as the user's code made them."""
        made = {node.name: place for place, node in enumerate(self.nodes)}
        forward = made.keys() - {node.name for node in self.nodes if node.op in CLOSERS}
        before = {node.name: {node_name(text) for text in node.input} & forward for node in self.nodes}
        for name in self.inserted:  # a cast stands right behind what it casts
            made[name] = min((made[source] for source in before[name]), default=-1)
        sorter = TopologicalSorter(before)
        sorter.prepare()
        ready = [(made[name], name) for name in sorter.get_ready()]
        heapify(ready)
        order: dict[str, int] = {}
        while ready:
            name = heappop(ready)[1]
            order[name] = len(order)
            sorter.done(name)
            for fresh in sorter.get_ready():
                heappush(ready, (made[fresh], fresh))
        return order

    @cached_property
    def live(self) -> list[Any]:
        """The nodes that run: TensorFlow prunes the others, and no probe may read them, or they would run too."""
        ends = [node_name(port.text) for port in self.results] + list(self.function.control_ret.values())
        roots = [*ends, *(node.name for node in self.nodes if self.has_effects(node))]

        def before(name: str) -> Iterator[str]:
            return map(node_name, self.by_name[name].input if name in self.by_name else ())

        found = set(reached(roots, before))
        return [node for node in self.nodes if node.name in found]

    @cached_property
    def readers(self) -> dict[str, list[Any]]:
        """Tensor -> the nodes that read it, in order."""
        out: dict[str, list[Any]] = {}
        for node in sorted(self.live, key=lambda node: self.order[node.name]):
            for port in self.inputs[node.name]:
                out.setdefault(port.text, []).append(node)
        return out

    @cached_property
    def read(self) -> set[str]:
        """The tensors that a node or the function's caller reads."""
        return {*self.readers, *(result.text for result in self.results)}

    def has_effects(self, node: Any) -> bool:
        """Whether a node does something beyond its outputs: it runs even if none of them is read."""
        return bool(kind_of(node, self.library).definition.is_stateful)

    def has_hidden_inputs(self, node: Any) -> bool:
        """Whether a node also takes values from a variable, a list, an iterator, or has no inputs at all."""
        inputs = self.inputs[node.name]
        return not inputs or any(port.dtype in OPAQUE for port in inputs)

    def is_call(self, node: Any) -> bool:
        """Whether a node calls functions."""
        return node.op in CALLS or node.op in self.library

    def computes(self, node: Any) -> bool:
        """Whether a node makes new floats that are read, from its inputs alone."""
        reads = any(port.dtype in FLOATS and port.text in self.read for port in self.outputs[node.name])
        return reads and not (self.is_call(node) or node.op in MOVERS or self.has_hidden_inputs(node))

    def add(self, op: str, inputs: Sequence[str], device: str = "", **attributes: Any) -> str:
        """Add a node; returns its name."""
        name = unused(f"{PREFIX}/{op}", self._taken)
        node = self.function.node_def.add(name=name, op=op, input=inputs, device=device)
        for key, value in attributes.items():
            node.attr[key].CopyFrom(_attribute(value))
        return name

    def constant(self, value: Any, dtype: Any) -> str:
        """Add a constant, once for equal ones; returns its tensor."""
        proto = tf.make_tensor_proto(value, dtype)
        key = proto.SerializeToString()
        if key not in self._constants:
            self._constants[key] = self.add("Const", (), dtype=dtype, value=AttrValue(tensor=proto)) + ":output:0"
        return self._constants[key]

    def pack(self, tensors: Sequence[str], dtype: Any, device: str = "") -> str:
        """Add a node that stacks tensors of one shape; returns its output."""
        return self.add("Pack", tensors, device, T=dtype, N=len(tensors), axis=0) + ":output:0"

    def run_also(self, name: str) -> None:
        """Let the function return only after this node has run."""
        self.function.control_ret[name] = name
        self.function.signature.control_output.append(name)
        self.function.signature.is_stateful = True


def inputs_of(node: Any, library: Mapping[str, Any]) -> list[Port]:
    """The data inputs of a node of a function, in order."""
    texts = (text for text in node.input if not text.startswith("^"))
    return [Port(text, dtype) for text, (_, dtype) in zip(texts, _ports(node, library, "input_arg"), strict=True)]


def _ports(node: Any, library: Mapping[str, Any], side: str) -> Iterator[tuple[str, int]]:
    """The inputs or the outputs of a node: the name and index of each, such as "z:0", and its dtype."""
    kind = kind_of(node, library)
    known = kind.named(kind.values(node))
    for argument in getattr(kind.definition, side):
        for index, (_, dtype) in enumerate(signatures.ports(argument, known)):
            yield f"{argument.name}:{index}", dtype


def _attribute(value: Any) -> AttrValue:
    """A Python value, a dtype or a tuple of dtypes as the value of a node's attribute."""
    match value:
        case bool():
            return AttrValue(b=value)
        case int():
            return AttrValue(i=value)
        case bytes():
            return AttrValue(s=value)
        case tf.DType():
            return AttrValue(type=value.as_datatype_enum)
        case tuple():
            return AttrValue(list=AttrValue.ListValue(type=[dtype.as_datatype_enum for dtype in value]))
        case _:
            return value
