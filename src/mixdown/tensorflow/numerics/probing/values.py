"""The probe behind `compare` and `bisect`: the values of tensors, widened to float32, in the order they were made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf
from tensorflow.core.framework import types_pb2

from mixdown.core import Role
from mixdown.numerics.names import is_backward
from mixdown.tensorflow.numerics.probing.channel import Channel
from mixdown.tensorflow.numerics.probing.counts import Key
from mixdown.tensorflow.protos.cast_node import cast_attributes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mixdown.core import Plan
    from mixdown.tensorflow.numerics.probing.ports import Port
    from mixdown.tensorflow.numerics.probing.probed_function import Sheet
    from mixdown.tensorflow.numerics.probing.trees import Tree

    Receiver = Callable[["Key", Any], None]


class Values:
    """Hands every value of the chosen tensors to a receiver."""

    def __init__(self, wanted: Callable[[Key, bool], bool], receive: Receiver) -> None:
        self.trees: list[Tree] = []
        self.final: set[Key] = set()
        self.dtypes: dict[Key, str] = {}
        self._wanted, self._receive = wanted, receive
        self._channel = Channel(tf.int32, tf.float32)
        self._keys: list[Key] = []

    @property
    def plans(self) -> list[Plan]:
        """What the policy does, or would do, with the functions that were called."""
        return [tree.plan for tree in self.trees]

    def instrument(self, tree: Tree) -> None:
        """See `runs.Probe`."""
        self.trees.append(tree)
        for sheet, port, key, final in self._chosen(tree):
            self.dtypes[key] = tf.as_dtype(port.dtype).name
            if final:
                self.final.add(key)
            number = sheet.constant(len(self._keys), tf.int32)
            self._keys.append(key)
            sheet.run_also([self._channel.write(sheet, (number, _widened(sheet, port)))])

    def _chosen(self, tree: Tree) -> Iterator[tuple[Sheet, Port, Key, bool]]:
        leaving = gradients_that_leave(tree.plan)
        for sheet in (each for each in tree.sheets if each.can_be_probed):
            for node in (node for node in sheet.live if node.name not in sheet.inserted):
                for output, port in enumerate(sheet.outputs[node.name]):
                    key = Key(node.name, node.op, output, sheet.original)
                    final = (sheet.original, f"{node.name}:{output}") in leaving
                    if port.dtype in WIDE_ENOUGH and port.text in sheet.read and self._wanted(key, final):
                        yield sheet, port, key, final

    def collect(self, tree: Tree) -> None:  # noqa: ARG002 - records name their function themselves
        """See `runs.Probe`."""
        for number, value in self._channel.records():
            self._receive(self._keys[int(number)], value.numpy())

    def close(self) -> None:
        """See `runs.Probe`."""
        self._channel.close()


WIDE_ENOUGH = frozenset({types_pb2.DT_HALF, types_pb2.DT_BFLOAT16, types_pb2.DT_FLOAT})
"""The dtypes that float32 holds exactly."""


def _widened(sheet: Sheet, port: Port) -> str:
    if port.dtype == types_pb2.DT_FLOAT:
        return port.text
    return sheet.add("Cast", (port.text,), **cast_attributes(port.dtype, types_pb2.DT_FLOAT)) + ":y:0"


def gradients_that_leave(plan: Plan) -> set[tuple[str, str]]:
    """The function and name of every gradient that something outside the backward pass reads."""
    graph = plan.graph
    backward = [_is_backward(plan, index) for index in range(len(graph.ops))]
    out = set()
    for tensor in graph.tensors:
        site = graph.sites[tensor.site]
        leaves = any(not backward[graph.sites[reader].op] for reader in tensor.consumers)
        if leaves and backward[site.op] and site.role is not Role.CONDUIT:
            out.add((graph.ops[site.op].function, tensor.name))
    return out


def _is_backward(plan: Plan, index: int) -> bool:
    """Whether an op is a part of the backward pass; sums of gradients have a name outside of it."""
    graph, op = plan.graph, plan.graph.ops[index]
    if op.kind != "AddN":
        return is_backward(op.name)
    return all(is_backward(graph.ops[graph.sites[s].op].name) for site in op.sites for s in graph.predecessors[site])
