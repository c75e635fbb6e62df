"""One view of the two protos that hold nodes, GraphDef and FunctionDef, and of the calls between them: `Body`.

Cast nodes, by which a value changes its dtype, are made by `cast_node` and known by `is_cast`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from tensorflow.core.framework.attr_value_pb2 import AttrValue
from tensorflow.core.framework.node_def_pb2 import NodeDef

from mixdown.errors import GraphError

CALLS = {
    "PartitionedCall": ("f",),
    "StatefulPartitionedCall": ("f",),
    "If": ("then_branch", "else_branch"),
    "StatelessIf": ("then_branch", "else_branch"),
    "Case": ("branches",),
    "StatelessCase": ("branches",),
    "While": ("cond", "body"),
    "StatelessWhile": ("cond", "body"),
}
"""Ops that call functions with their own inputs, and the attributes that name these functions. Others, such as the maps
of tf.data, call functions too, but outside of this computation: they are not followed."""

GROUP = "api_implements"  # marks functions among which TensorFlow chooses one by device, as RNN layers do
EXACT = "_mixdown_exact"  # marks nodes of ours that compute statistics
MUST_COMPILE = "_XlaMustCompile"  # marks functions that XLA compiles, with all they call

PREDICATED = {"If", "StatelessIf", "Case", "StatelessCase"}  # their first input only chooses
LOOPS = {"While", "StatelessWhile"}

T = TypeVar("T")


class Body(NamedTuple):
    """The nodes of a graph or function, with the function's arguments and results."""

    proto: Any  # the GraphDef or FunctionDef
    function: str  # "" for a graph
    nodes: Sequence[Any]
    arguments: Sequence[tuple[str, int]]  # name and dtype
    results: Sequence[tuple[str, str, int]]  # name, the tensor it returns, dtype


def graph_body(graph_def: Any) -> Body:
    """The body of a GraphDef."""
    return Body(graph_def, "", list(graph_def.node), (), ())


def function_body(function: Any) -> Body:
    """The body of a FunctionDef."""
    signature = function.signature
    return Body(
        function,
        signature.name,
        list(function.node_def),
        [(argument.name, argument.type) for argument in signature.input_arg],
        [(result.name, function.ret[result.name], result.type) for result in signature.output_arg],
    )


def attribute(node: Any, name: str) -> Any:
    """An attribute of a node, empty if it has none; `node.attr[name]` would add it to the node."""
    return node.attr.get(name) or AttrValue()


def followed(node: Any, library: Mapping[str, Any]) -> list[str]:
    """The functions that a node calls as a part of this computation, if all of them can be rewritten with it."""
    names = [node.op] if node.op in library else _named(node) if node.op in CALLS else []
    return names if all(name in library and _is_plain(library[name]) for name in names) else []


def calls(nodes: Sequence[Any], library: Mapping[str, Any]) -> Iterator[tuple[int, list[str]]]:
    """Every node of a body that makes calls as a part of this computation, with the functions it calls."""
    if not library:
        return
    kinds = [node.op for node in nodes]
    calling = {kind for kind in set(kinds) if kind in CALLS or kind in library}
    for index in [index for index, kind in enumerate(kinds) if kind in calling] if calling else ():
        names = followed(nodes[index], library)
        if names:
            yield index, names


def reached(start: Iterable[T], following: Callable[[T], Iterable[T]]) -> list[T]:
    """Some items and all that follow them, directly or not, in the order in which they are found."""
    queue = list(start)
    seen = set(queue)
    for item in queue:
        fresh = [each for each in dict.fromkeys(following(item)) if each not in seen]
        seen.update(fresh)
        queue.extend(fresh)
    return queue


def reachable(body: Body, library: Mapping[str, Any]) -> list[str]:
    """Every function that a body calls, directly or not, sorted by name."""
    direct = _called(body.nodes, library)
    return sorted(reached(direct, lambda name: _called(library[name].node_def, library)))


def tree_of(body: Body, library: Mapping[str, Any]) -> list[Body]:
    """A body and all functions that it calls, directly or not."""
    return [body, *(function_body(library[name]) for name in reachable(body, library))]


def compiled(tree: Sequence[Body], library: Mapping[str, Any]) -> set[int]:
    """The bodies of a tree that only XLA runs: those marked so, and what they call unless others call it too."""
    number = {body.function: index for index, body in enumerate(tree)}
    marked = [index for index, body in enumerate(tree) if body.function and attribute(body.proto, MUST_COMPILE).b]
    called = [[number[name] for name in _called(body.nodes, library)] for body in tree]
    others = reached([0], lambda index: [each for each in called[index] if each not in marked])
    return set(reached(marked, lambda index: called[index])) - (set(others) - set(marked))


def _called(nodes: Sequence[Any], library: Mapping[str, Any]) -> set[str]:
    return {name for _, names in calls(nodes, library) for name in names}


def _named(node: Any) -> list[str]:
    out: list[str] = []
    for attribute in CALLS[node.op]:
        value = node.attr.get(attribute)
        if value is None:
            raise GraphError(f"Node {node.name!r} ({node.op}) lacks the attribute {attribute!r}.")
        out.extend(function.name for function in (value.list.func if attribute == "branches" else [value.func]))
    return out


def _is_plain(function: Any) -> bool:
    """Whether every argument and result has one fixed dtype: only then can the signature be rewritten."""
    ends = (*function.signature.input_arg, *function.signature.output_arg)
    return all(end.type and not end.number_attr for end in ends) and not function.signature.attr


def cast_attributes(from_type: int, to_type: int) -> dict[str, Any]:
    """The attributes of a node that casts from one dtype to the other."""
    return {"SrcT": AttrValue(type=from_type), "DstT": AttrValue(type=to_type), "Truncate": AttrValue(b=False)}


def cast_node(name: str, tensor: str, from_type: int, to_type: int, device: str = "") -> Any:
    """A NodeDef that casts a tensor, which is given the way nodes of the same graph or function name it."""
    attributes = cast_attributes(from_type, to_type)
    return NodeDef(name=name, op="Cast", input=[tensor], device=device, attr=attributes)


def is_cast(node: Any, from_type: int, to_type: int) -> bool:
    """Whether a node casts from one dtype to the other."""
    return node.op == "Cast" and node.attr["SrcT"].type == from_type and node.attr["DstT"].type == to_type
