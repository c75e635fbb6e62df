"""Compare two rewrites of one graph, type attribute by type attribute and cast by cast. Start at `differences`."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

# TensorFlow's pass renames these before it decides; with both types float32 the new name means the same.
UPGRADED = {"FusedBatchNorm": "FusedBatchNormV2", "FusedBatchNormGrad": "FusedBatchNormGradV2"}
FLOAT32 = tf.float32.as_datatype_enum


@dataclass(frozen=True)
class Conversion:
    """A cast that a rewrite inserted, identified by its input, dtype and readers, not by its name."""

    tensor: str
    to: str
    consumers: frozenset[tuple[str, int]]

    def __str__(self) -> str:
        readers = ", ".join(f"{node}[{index}]" for node, index in sorted(self.consumers))
        return f"cast {self.tensor} -> {self.to} for {readers}"


def differences(original: Any, ours: Any, theirs: Any) -> list[str]:
    """List every way in which two rewrites of `original` differ; an empty list means parity."""
    nodes = {node.name: node for node in original.node}
    found = [
        f"{name} is missing from {side} rewrite"
        for side, graph_def in (("our", ours), ("their", theirs))
        for name in sorted(nodes.keys() - {node.name for node in graph_def.node})
    ]
    if found:
        return found
    return [*type_differences(nodes, ours, theirs), *cast_differences(nodes, ours, theirs)]


def type_differences(nodes: dict[str, Any], ours: Any, theirs: Any) -> list[str]:
    """Compare kind and type attributes of every original node."""
    our_types, their_types = (types_of(nodes, graph_def) for graph_def in (ours, theirs))
    keys = sorted(our_types.keys() | their_types.keys())
    return [
        f"{nodes[node].op} {node}.{attribute}: ours {our_types.get((node, attribute))}, "
        f"theirs {their_types.get((node, attribute))}"
        for node, attribute in keys
        if our_types.get((node, attribute)) != their_types.get((node, attribute))
    ]


def types_of(nodes: dict[str, Any], graph_def: Any) -> dict[tuple[str, str], str]:
    """Map (node, attribute) to its value, for the original nodes; the kind is under "kind"."""
    found: dict[tuple[str, str], str] = {}
    for node in graph_def.node:
        if node.name not in nodes:
            continue
        plain = only_renamed(nodes[node.name], node)
        found[node.name, "kind"] = nodes[node.name].op if plain else node.op
        for attribute, value in type_attributes(node):
            if not (plain and attribute == "U"):
                found[node.name, attribute] = value
    return found


def only_renamed(before: Any, after: Any) -> bool:
    """Whether a batch norm was only renamed."""
    return UPGRADED.get(before.op) == after.op and {after.attr[key].type for key in "TU"} == {FLOAT32}


def type_attributes(node: Any) -> Iterator[tuple[str, str]]:
    """Yield the type attributes of a node, the elements of lists one by one."""
    for name, value in node.attr.items():
        if name.startswith("_"):
            continue
        if value.WhichOneof("value") == "type":
            yield name, tf.as_dtype(value.type).name
        for index, member in enumerate(value.list.type):
            yield f"{name}[{index}]", tf.as_dtype(member).name


def cast_differences(nodes: dict[str, Any], ours: Any, theirs: Any) -> list[str]:
    """Compare the inserted casts, and the inputs without a cast."""
    our_wiring, their_wiring = (wiring_of(nodes, graph_def) for graph_def in (ours, theirs))
    only_ours, only_theirs = our_wiring - their_wiring, their_wiring - our_wiring
    return [
        f"only {side}: {conversion}"
        for side, conversions in (("ours", only_ours), ("theirs", only_theirs))
        for conversion in sorted(map(str, conversions.elements()))
    ]


def wiring_of(nodes: dict[str, Any], graph_def: Any) -> Counter[Conversion]:
    """Count how tensors reach sets of inputs: through an inserted cast, or unchanged."""
    inserted = {node.name: node for node in graph_def.node if node.name not in nodes}
    strangers = [name for name, node in inserted.items() if node.op != "Cast"]
    assert not strangers, f"a rewrite inserts nothing but casts: {strangers}"
    readers: defaultdict[str, set[tuple[str, int]]] = defaultdict(set)
    wiring: Counter[Conversion] = Counter()
    for node in graph_def.node:
        reader = f"a cast of {tensor_name(node.input[0])}" if node.name in inserted else node.name
        for index, name in enumerate(name for name in node.input if not name.startswith("^")):
            readers[tensor_name(name)].add((reader, index))
    for name, node in inserted.items():
        to = tf.as_dtype(node.attr["DstT"].type).name
        consumers = frozenset(readers.pop(f"{name}:0", set()))
        wiring[Conversion(tensor_name(node.input[0]), to, consumers)] += 1
    wiring.update(Conversion(tensor, "itself", frozenset(to)) for tensor, to in readers.items())
    return wiring


def tensor_name(name: str) -> str:
    """The name of a tensor with the index of its output, also if that is 0."""
    return name if ":" in name else f"{name}:0"
