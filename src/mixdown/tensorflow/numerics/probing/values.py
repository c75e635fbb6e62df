"""The probe behind `compare` and `bisect`: the values of tensors, widened to float32, in the order they were made."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import types_pb2

from mixdown.core import Plan, Role
from mixdown.rules.layer_names import is_backward
from mixdown.tensorflow.numerics.probing.channel import Channel
from mixdown.tensorflow.numerics.probing.probed_function import FLOATS, Key, Port, ProbedFunction
from mixdown.tensorflow.numerics.probing.trees import ProbedTree
from mixdown.tensorflow.protos.bodies import cast_attributes

HELD_BY_FLOAT32 = FLOATS - {types_pb2.DT_DOUBLE}
"""The dtypes whose numbers float32 holds exactly."""


class Values:
    """Keeps every value of `wanted` tensors, told a key and whether it is a gradient that leaves the backward pass."""

    def __init__(self, wanted: Callable[[Key, bool], bool]) -> None:
        self.found: dict[Key, list[Any]] = {}
        self.trees: list[ProbedTree] = []
        self.final: set[Key] = set()
        self.dtypes: dict[Key, str] = {}
        self._wanted = wanted
        self._channel = Channel[Key](tf.float32)
        self.channels: tuple[Channel[Any], ...] = (self._channel,)

    def instrument(self, tree: ProbedTree) -> None:
        """See `runs.Probe`."""
        self.trees.append(tree)
        for function, port, key, final in self._chosen(tree):
            dtype, text = tf.as_dtype(port.dtype), port.text
            if dtype != tf.float32:
                text = function.add("Cast", (text,), **cast_attributes(port.dtype, types_pb2.DT_FLOAT)) + ":y:0"
            self.dtypes[key] = dtype.name
            if final:
                self.final.add(key)
            function.run_also(self._channel.send(function, text, key))

    def _chosen(self, tree: ProbedTree) -> Iterator[tuple[ProbedFunction, Port, Key, bool]]:
        leaving = _gradients_that_leave(tree.plan)
        for function in (each for each in tree.functions if each.can_be_probed):
            for node in (node for node in function.live if node.name not in function.inserted):
                for output, port in enumerate(function.outputs[node.name]):
                    key = Key(node.name, node.op, output, function.original)
                    final = (function.original, f"{node.name}:{output}") in leaving
                    if port.dtype in HELD_BY_FLOAT32 and port.text in function.read and self._wanted(key, final):
                        yield function, port, key, final

    def collect(self) -> None:
        """See `runs.Probe`."""
        for key, value in self._channel.records():
            self.found.setdefault(key, []).append(value)


def _gradients_that_leave(plan: Plan) -> set[tuple[str, str]]:
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


def float_array(value: Any) -> Any:
    """A value as an array of floats in a dtype that NumPy computes in; None if it does not hold floats."""
    array = np.asarray(value)
    if array.dtype == tf.bfloat16.as_numpy_dtype:
        return array.astype(np.float32)
    return array if array.dtype.kind == "f" else None
