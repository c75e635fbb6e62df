"""Nodes of a plan for a session's graph, in which every node keeps its name, its outputs and their dtypes. See `write`.

A node with 16-bit outputs is split: the 16-bit node has a name of its own, and a carrier under the user's name casts
its outputs back to float32. So whatever is fed, fetched, saved or waited for by name is still there. 16-bit consumers
read the 16-bit node; others read the carrier, or the node itself where that saves a cast.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from tensorflow.core.framework import node_def_pb2

from mixdown.tensorflow.protos import signatures
from mixdown.tensorflow.protos.bodies import cast_node
from mixdown.tensorflow.protos.library import output_types, unused
from mixdown.tensorflow.protos.wiring import source

MARK = "__mixdown"
MARKED = re.compile(rf"{MARK}(?:_(?:low|full)_\d+)?(?:_\d+)?")
"""What the names of added nodes have behind the name of the user's node they belong to."""

ROUTERS = {"Switch"}
"""Kinds that compute only one of their outputs: a carrier would wait for all, so a float32 node stays beside them."""

XLA_CLUSTER = ("_XlaCompile", "_XlaScope")  # attributes that ask XLA to compile a node together with its neighbours


class Split(NamedTuple):
    """Where the twin keeps the outputs of a node that was split."""

    node: str  # the node that computes them
    low: tuple[bool, ...]  # per output, whether it is low
    full: tuple[str, ...]  # per output, the tensor that holds it in float32


@dataclass(frozen=True)
class Layout:
    """Where the twin keeps the user's nodes that it has: it grows with the graph, and nothing in it ever changes."""

    lowered: Mapping[str, frozenset[str]] = field(default_factory=dict)  # node -> its type attributes that are low
    splits: Mapping[str, Split] = field(default_factory=dict)
    copies: Mapping[tuple[str, int], str] = field(default_factory=dict)  # tensor -> the node that holds it low

    def full(self, name: str, port: int) -> str:
        """The tensor of the twin that holds the user's tensor as the user knows it."""
        split = self.splits.get(name)
        # Gradients of functional control flow add outputs to nodes that may be imported already: TensorFlow cannot run
        # that, with or without a twin, and raises an error when it meets the name.
        return f"{name}:{port}" if split is None or port >= len(split.full) else split.full[port]

    def doubles(self, name: str, port: int) -> list[tuple[str, int, bool]]:
        """Other tensors that stand for the user's tensor and must be fed with it: node, port, whether it is low."""
        split = self.splits.get(name)
        if split is None:
            return []
        beside, _, index = split.full[port].rpartition(":")
        out = [(split.node, port, split.low[port])]
        return out if beside in (name, split.node) else [*out, (beside, int(index), False)]


class NewNodes(NamedTuple):
    """New nodes of the outermost graph, with what a plan decides about them."""

    nodes: Sequence[tuple[Any, Any]]  # each as the user made it, and with low types and calls of twins
    low_inputs: Collection[tuple[str, int]] = frozenset()  # node and position
    lowered: Mapping[str, frozenset[str]] = {}
    functions: Mapping[str, Any] = {}  # by name, twins included


def write(new: NewNodes, layout: Layout, low: int, taken: set[str]) -> tuple[list[Any], Layout]:
    """The nodes to add to a twin, and its layout with them; their names are added to `taken`, those of all nodes."""
    writer = _Writer(new, layout, low, taken)
    nodes = [node for pair in new.nodes for node in writer.emit(*pair)]
    return [*nodes, *writer.casts], replace(writer.layout, copies=writer.copies)


class _Writer:
    """Writes nodes one after the other."""

    def __init__(self, new: NewNodes, layout: Layout, low: int, taken: set[str]) -> None:
        self.new, self.low, self.taken = new, low, taken
        self.copies = dict(layout.copies)
        self.casts: list[Any] = []  # those that make new low copies
        splits = {before.name: split for before, after in new.nodes if (split := self._split(before, after))}
        self.layout = replace(layout, lowered={**layout.lowered, **new.lowered}, splits={**layout.splits, **splits})

    def _split(self, before: Any, after: Any) -> Split | None:
        if before.name not in self.new.lowered:
            return None
        functions = self.new.functions
        low = [one != other for one, other in zip(*(output_types(n, functions) for n in (before, after)), strict=True)]
        if not any(low):
            return None
        node = unused(f"{before.name}{MARK}", self.taken)
        if len(low) == 1 or before.op in ROUTERS:
            return Split(node, tuple(low), tuple(f"{before.name}:{port}" for port in range(len(low))))
        full = [
            f"{unused(f'{before.name}{MARK}_full_{port}', self.taken)}:0" if is_low else f"{node}:{port}"
            for port, is_low in enumerate(low)
        ]
        return Split(node, tuple(low), tuple(full))

    def emit(self, before: Any, after: Any) -> list[Any]:
        """The node, and the carrier if it was split."""
        node = deepcopy(after)
        places = range(len(before.input))
        self._connect(node, before, [(before.name, place) in self.new.low_inputs for place in places])
        split = self.layout.splits.get(before.name)
        if split is None:
            return [node]
        node.name = split.node
        return [node, *self._carriers(before, split)]

    def _connect(self, node: Any, before: Any, low: Sequence[bool]) -> None:
        del node.input[:]
        node.input.extend(self._input(text, low=wanted) for text, wanted in zip(before.input, low, strict=True))

    def _input(self, text: str, *, low: bool) -> str:
        name, port = source(text)
        if port is None:
            split = self.layout.splits.get(name)
            return text if split is None else f"^{split.node}"
        return self._low(name, port) if low else _short(self.layout.full(name, port))

    def _low(self, name: str, port: int) -> str:
        """The tensor that holds the user's tensor low; a cast makes it if nothing else does."""
        split = self.layout.splits.get(name)
        if split is not None and split.low[port]:
            return _short(f"{split.node}:{port}")
        if (name, port) not in self.copies:
            self.copies[name, port] = copy = unused(f"{name}{MARK}_low_{port}", self.taken)
            self.casts.append(_cast(copy, _short(self.layout.full(name, port)), signatures.FLOAT, self.low))
        return self.copies[name, port]

    def _carriers(self, before: Any, split: Split) -> list[Any]:
        if before.op in ROUTERS:
            router = deepcopy(before)
            self._connect(router, before, [False] * len(before.input))
            return [router]
        added = [
            _cast(full.rpartition(":")[0], _short(f"{split.node}:{port}"), self.low, signatures.FLOAT)
            for port, full in enumerate(split.full)
            if split.low[port]
        ]
        if len(split.full) > 1:
            carrier = node_def_pb2.NodeDef(name=before.name, op="IdentityN", input=map(_short, split.full))
            carrier.attr["T"].list.type.extend(output_types(before, self.new.functions))
            added.append(_beside(split.node, carrier))
        for node in added:
            node.device = before.device
            for key in (key for key in XLA_CLUSTER if key in before.attr):
                node.attr[key].CopyFrom(before.attr[key])
        return added


def _cast(name: str, tensor: str, from_type: int, to_type: int) -> Any:
    return _beside(source(tensor)[0], cast_node(name, tensor, from_type, to_type))


def _beside(neighbour: str, node: Any) -> Any:
    """Let a node run where its neighbour runs, wherever TensorFlow puts that."""
    node.attr["_class"].list.s.append(f"loc:@{neighbour}".encode())
    return node


def _short(tensor: str) -> str:
    """TensorFlow's own spelling of a tensor's name in an input."""
    return tensor.removesuffix(":0")
