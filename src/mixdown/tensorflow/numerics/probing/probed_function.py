"""A copy of a function that probes are written into. Start with `Sheet`."""

from __future__ import annotations

from functools import cached_property
from graphlib import TopologicalSorter
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from tensorflow.core.framework.attr_value_pb2 import AttrValue

from mixdown.tensorflow.numerics.probing.ports import OPAQUE, Port, inputs, is_stateful, maker, outputs
from mixdown.tensorflow.protos.library import unused

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

PREFIX = "mixdown_probe"
OLD_CONTROL_FLOW = frozenset({"Switch", "Merge", "Enter", "RefSwitch", "RefMerge", "RefEnter"})
CLOSERS = frozenset({"NextIteration", "RefNextIteration"})  # they close the loops of TensorFlow 1


class Sheet:
    """One function of a tree: what is in it, and a pen to write probes with."""

    def __init__(self, number: int, function: Any, original: str, library: Mapping[str, Any], known: set[str]) -> None:
        self.number, self.function, self.original, self.library = number, function, original, library
        self.nodes = list(function.node_def)
        self.inserted = {node.name for node in self.nodes} - known  # the casts of the plan
        self._taken = {node.name for node in self.nodes} | {argument.name for argument in function.signature.input_arg}
        self._constants: dict[bytes, str] = {}

    @property
    def can_be_probed(self) -> bool:
        """Whether every node runs when the function runs: not so with the control flow of TensorFlow 1."""
        return not any(node.op in OLD_CONTROL_FLOW for node in self.nodes)

    @cached_property
    def outputs(self) -> dict[str, list[Port]]:
        """Node -> its outputs."""
        return {node.name: outputs(node, self.library) for node in self.nodes}

    @cached_property
    def inputs(self) -> dict[str, list[Port]]:
        """Node -> its inputs."""
        return {node.name: inputs(node, self.library) for node in self.nodes}

    @cached_property
    def arguments(self) -> list[Port]:
        """The arguments of the function."""
        return [Port(argument.name, argument.type) for argument in self.function.signature.input_arg]

    @cached_property
    def results(self) -> list[Port]:
        """What the function returns."""
        ret = self.function.ret
        return [Port(ret[result.name], result.type) for result in self.function.signature.output_arg]

    @cached_property
    def order(self) -> dict[str, int]:
        """Node -> its place: every node follows those it reads, otherwise they stand as the user's code made them."""
        made = {node.name: place for place, node in enumerate(self.nodes)}
        forward = made.keys() - {node.name for node in self.nodes if node.op in CLOSERS}
        before = {node.name: {maker(text) for text in node.input} & forward for node in self.nodes}
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
        """The nodes that run at all: others TensorFlow prunes, and a probe must not bring them back."""
        by_name = {node.name: node for node in self.nodes}
        ends = [maker(port.text) for port in self.results] + list(self.function.control_ret.values())
        queue = [*ends, *(node.name for node in self.nodes if is_stateful(node, self.library))]
        found: set[str] = set()
        for name in queue:
            if name in by_name and name not in found:
                found.add(name)
                queue.extend(maker(text) for text in by_name[name].input)
        return [node for node in self.nodes if node.name in found]

    @cached_property
    def read(self) -> set[str]:
        """The tensors that something reads."""
        return {port.text for node in self.live for port in self.inputs[node.name]} | {r.text for r in self.results}

    def has_hidden_inputs(self, name: str) -> bool:
        """Whether a node also takes values from a variable, a list, an iterator, or from nowhere."""
        return not self.inputs[name] or any(port.dtype in OPAQUE for port in self.inputs[name])

    def add(self, op: str, inputs: Sequence[str], device: str = "", **attributes: AttrValue) -> str:
        """Write one node; returns its name."""
        name = unused(f"{PREFIX}/{op}", self._taken)
        node = self.function.node_def.add(name=name, op=op, input=inputs, device=device)
        for key, value in attributes.items():
            node.attr[key].CopyFrom(value)
        return name

    def constant(self, value: Any, dtype: Any) -> str:
        """A constant; returns its tensor. Equal ones are written once."""
        proto = tf.make_tensor_proto(value, dtype)
        key = proto.SerializeToString()
        if key not in self._constants:
            attributes = {"dtype": AttrValue(type=proto.dtype), "value": AttrValue(tensor=proto)}
            self._constants[key] = self.add("Const", (), **attributes) + ":output:0"
        return self._constants[key]

    def pack(self, tensors: Sequence[str], dtype: Any, device: str = "") -> str:
        """Tensors of one shape as one; returns it."""
        attributes = {"T": a_type(dtype), "N": AttrValue(i=len(tensors)), "axis": AttrValue(i=0)}
        return self.add("Pack", tensors, device, **attributes) + ":output:0"

    def run_also(self, nodes: Iterable[str]) -> None:
        """Let the function not return before these nodes have run."""
        for name in nodes:
            self.function.control_ret[name] = name
            self.function.signature.control_output.append(name)
        self.function.signature.is_stateful = True


def a_type(dtype: Any) -> AttrValue:
    """A dtype as the value of an attribute."""
    return AttrValue(type=tf.as_dtype(dtype).as_datatype_enum)
