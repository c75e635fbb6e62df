"""Plans made before, for functions of the same content under other names: `KnownPlans`.

A program that compiles a Keras model again, or makes the same model again after Keras was cleared, as searches and
cross-validation do, traces the same step again. Reading and planning it takes many times as long as comparing it.
"""

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, NamedTuple

from mixdown.core import Op, Plan, Policy
from mixdown.tensorflow.fusing.fuse import fused
from mixdown.tensorflow.protos.bodies import CALLS, Body, function_body, tree_of
from mixdown.tensorflow.protos.library import rename_calls
from mixdown.tensorflow.reading.builder import ARGUMENT, RESULT, Origin
from mixdown.tensorflow.reading.read import Reading
from mixdown.tensorflow.shapes.variable_handles import Handle
from mixdown.tensorflow.writing.planning import read_and_plan

MOST = 4
"""So many plans are kept: with its graph, one of a large model takes some 50 MB."""

IDENTITIES = ("_gradient_op_type", "_user_specified_name", "token")
"""Attributes that name Python objects of one trace: other values of them do not change a plan."""


class Asked(NamedTuple):
    """Which function is to be rewritten, and for what."""

    root: str
    policy: Policy
    device: str  # the type of the device it is called on
    handles: Mapping[int, Handle]  # the variables among its arguments, by position


class Planned(NamedTuple):
    """A function that was read, and the plan for it."""

    asked: Asked
    reading: Reading
    plan: Plan
    tree: Sequence[Body]  # the functions as they are registered
    left: Collection[tuple[int, str]]  # normalizations that were not put onto one op: numbers of functions, and names


class KnownPlans:
    """The plans made last, by the names of all nodes of their functions."""

    def __init__(self) -> None:
        self._recent: OrderedDict[tuple[tuple[str, ...], ...], Planned] = OrderedDict()

    def planned(self, library: Mapping[str, Any], asked: Asked) -> Planned:
        """Read and plan a function with all it calls, or take over the plan for a function of the same content."""
        tree = tree_of(function_body(library[asked.root]), library)
        key = tuple(tuple(node.name for node in one.nodes) for one in tree)
        before = self._recent.get(key)
        if before is not None and _alike(before, asked, tree):
            made = _taken_over(before, asked, tree, library)
        else:
            made = planned(library, asked)
        self._recent[key] = made
        self._recent.move_to_end(key)
        while len(self._recent) > MOST:
            self._recent.popitem(last=False)
        return made


def planned(library: Mapping[str, Any], asked: Asked) -> Planned:
    """Read and plan a function with all it calls."""
    tree = tree_of(function_body(library[asked.root]), library)
    reading, plan, left = read_and_plan(
        tree[0], library, asked.policy, default_device=asked.device, handles=asked.handles
    )
    number = {body.function: index for index, body in enumerate(tree)}
    return Planned(asked, reading, plan, tree, {(number[function], name) for function, name in left})


def _alike(before: Planned, asked: Asked, tree: Sequence[Body]) -> bool:
    """Whether reading a function would give what was read before, but for the names of functions."""
    return before.asked._replace(root="") == asked._replace(root="") and _content(before.tree) == _content(tree)


def _content(tree: Sequence[Body]) -> list[bytes]:
    """The functions of a tree as bytes, in which numbers stand for their names and those of their arguments."""
    numbers = {body.function: str(number) for number, body in enumerate(tree)}
    return [_anonymous(body, numbers) for body in tree]


def _anonymous(body: Body, numbers: Mapping[str, str]) -> bytes:
    copy = deepcopy(body.proto)
    copy.signature.name = numbers[body.function]
    rename_calls((node for node in copy.node_def if node.op in CALLS or node.op in numbers), numbers)
    _number_ends(copy)
    for attributes in (*copy.arg_attr.values(), *copy.node_def):
        for name in IDENTITIES:
            attributes.attr.pop(name, None)
    return bytes(copy.SerializeToString(deterministic=True))


def _number_ends(function: Any) -> None:
    """Give the arguments and results of a function the names 0, 1, ...: TensorFlow's hold numbers of the trace."""
    arguments = {argument.name: f"{number}:" for number, argument in enumerate(function.signature.input_arg)}
    returned = [function.ret[result.name] for result in function.signature.output_arg]
    function.ret.clear()
    for number, (result, text) in enumerate(zip(function.signature.output_arg, returned, strict=True)):
        result.name = str(number)
        function.ret[result.name] = arguments.get(text, text)
    for number, argument in enumerate(function.signature.input_arg):
        argument.name = str(number)
    for node in function.node_def:
        if any(text in arguments for text in node.input):
            node.input[:] = [arguments.get(text, text) for text in node.input]


def _taken_over(before: Planned, asked: Asked, tree: Sequence[Body], library: Mapping[str, Any]) -> Planned:
    """The same plan, for these functions."""
    graph, origins = before.reading.graph, before.reading.origins
    left = {(tree[number].function, name) for number, name in before.left}
    smaller = fused(tree[0], library, asked.policy, without=left)
    ops = tuple(_renamed(op, origin, tree[origin.body]) for op, origin in zip(graph.ops, origins, strict=True))
    makers = [graph.sites[tensor.site].op for tensor in graph.tensors]
    tensors = tuple(
        tensor._replace(name=f"{ops[maker].name}:0") if origins[maker].node == ARGUMENT else tensor
        for tensor, maker in zip(graph.tensors, makers, strict=True)
    )
    graph = replace(graph, ops=ops, tensors=tensors)
    reading = replace(before.reading, graph=graph, bodies=smaller.tree, library=smaller.library)
    plan = replace(before.plan, view=replace(before.plan.view, graph=graph))
    return before._replace(asked=asked, reading=reading, plan=plan, tree=tree)


def _renamed(op: Op, origin: Origin, body: Body) -> Op:
    """An op under the names that it has in a function of the same content."""
    if origin.node == ARGUMENT:
        return op._replace(function=body.function, name=body.arguments[origin.position][0])
    if origin.node == RESULT:
        return op._replace(function=body.function, name=body.results[origin.position][0])
    return op._replace(function=body.function)
