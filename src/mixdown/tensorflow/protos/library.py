"""Functions by name: which of them nodes refer to, which belong to one group, and names that are still free.

A node refers to a function by its op or by an attribute. Functions of one group (`GROUP`) compute the same: TensorFlow
chooses one of them by device, as for RNN layers, so all of them must be rewritten together.
"""

from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import count
from typing import Any

from mixdown.errors import GraphError
from mixdown.tensorflow.protos import signatures
from mixdown.tensorflow.protos.bodies import GROUP, reached

PARTNERS = ("forward_function_name", "backward_function_name")
"""Attributes by which the functions of a group name each other."""


def by_name(graph_def: Any) -> dict[str, Any]:
    """The functions in the library of a graph."""
    return {function.signature.name: function for function in graph_def.library.function}


def replace_all(items: Any, kept: Iterable[Any]) -> None:
    """Let a repeated field of messages hold these, which may be some of its own."""
    copies = [type(item).FromString(item.SerializeToString()) for item in kept]
    del items[:]
    items.extend(copies)


def mentioned(nodes: Iterable[Any]) -> set[str]:
    """The names of all functions in the attributes of nodes, and all their ops, which may be functions too."""
    out = set()
    for node in nodes:
        out.add(node.op)
        for value in node.attr.values():
            out.update(function.name for function in (*value.list.func, value.func))
    return out - {""}


def rename_calls(nodes: Iterable[Any], names: Mapping[str, str]) -> None:
    """Let nodes refer to functions by other names, given by the old ones."""
    for node in nodes:
        node.op = names.get(node.op, node.op)
        for value in node.attr.values():
            for function in (*value.list.func, *([value.func] if value.HasField("func") else [])):
                function.name = names.get(function.name, function.name)


def referenced(names: Iterable[str], functions: Mapping[str, Any], *, partners: bool = False) -> set[str]:
    """These functions and all that they refer to, directly or not; if `partners`, by the names of partners as well."""

    def named(name: str) -> set[str]:
        others = partners_of(functions[name]).values() if partners else ()
        return functions.keys() & {*mentioned(functions[name].node_def), *others}

    return set(reached(functions.keys() & names, named))


def callees_first(functions: Mapping[str, Any]) -> list[str]:
    """The names of functions, those first that others refer to; a circle of them is refused."""
    called = {name: sorted(mentioned(functions[name].node_def) & functions.keys()) for name in sorted(functions)}
    try:
        return list(TopologicalSorter(called).static_order())
    except CycleError as circle:
        names = " -> ".join(circle.args[1])
        raise GraphError(f"Functions of the model call each other in a circle: {names}.") from None


def group_of(function: Any) -> bytes:
    """The group that a function belongs to, b"" if to none."""
    return function.attr[GROUP].s if GROUP in function.attr else b""


def partners_of(function: Any) -> dict[str, str]:
    """The functions that a function names as its partners, by attribute."""
    return {attribute: function.attr[attribute].s.decode() for attribute in PARTNERS if attribute in function.attr}


def rename_partners(function: Any, names: Mapping[str, str]) -> None:
    """Let a function name its partners otherwise, given by the old names."""
    for attribute, partner in partners_of(function).items():
        function.attr[attribute].s = names.get(partner, partner).encode()


def members(library: Mapping[str, Any], groups: set[bytes], known: dict[str, bytes]) -> list[str]:
    """The functions of these groups, sorted; `known` holds the groups of functions seen before, and grows."""
    if not groups:
        return []
    for name in library:
        if name not in known and name in library:
            known[name] = group_of(library[name])
    return sorted(name for name, group in known.items() if group in groups and name in library)


def rename_groups(families: Sequence[Mapping[str, Any]], suffix: str) -> None:
    """Give twins groups of their own, so that TensorFlow never chooses an original in place of a twin."""
    names = {original: twin.signature.name for family in reversed(families) for original, twin in family.items()}
    for twin in (twin for family in families for twin in family.values()):
        if group := group_of(twin):
            twin.attr[GROUP].s = group + suffix.encode()
        rename_partners(twin, names)


def kind_of(node: Any, library: Mapping[str, Any]) -> signatures.Kind:
    """The kind of a node, whose op may be a function; a `GraphError` if it is neither that nor registered."""
    kind = signatures.kind_of(node.op)
    if kind is not None:
        return kind
    if node.op not in library:
        raise signatures.unknown(node)
    return signatures.prepare(library[node.op].signature)


def output_types(node: Any, library: Mapping[str, Any]) -> list[int]:
    """The dtypes of a node's outputs."""
    kind = kind_of(node, library)
    known = kind.named(kind.values(node))
    return [dtype for output in kind.definition.output_arg for _, dtype in signatures.ports(output, known)]


def unused(wanted: str, taken: set[str]) -> str:
    """The wanted name, numbered if it is taken; it is taken from now on."""
    name = wanted
    for number in count(1):
        if name not in taken:
            break
        name = f"{wanted}_{number}"
    taken.add(name)
    return name
