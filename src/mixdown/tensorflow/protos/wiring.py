"""Which node and port each data input of a body comes from. See `WiredBody`."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

from mixdown.errors import GraphError
from mixdown.tensorflow.protos.bodies import Body, reached
from mixdown.tensorflow.protos.signatures import Signature

Source = tuple[int, int]
"""The node and output port a value comes from; argument i of a function is the node -1 - i."""

LONGEST_PORT = 9
"""Digits: no node has more outputs, and Python refuses to convert very long texts to numbers."""


class WiredBody:
    """A body, at a place (`index`) in a tree, with the sources of all data inputs of its nodes, and of its results."""

    def __init__(self, body: Body, signatures: Sequence[Signature], index: int = 0) -> None:
        self.body, self.signatures, self.index = body, signatures, index
        self._names = {node.name: index for index, node in enumerate(body.nodes)}
        if len(self._names) < len(body.nodes):
            twice, _ = Counter(node.name for node in body.nodes).most_common(1)[0]
            raise GraphError(f"Two nodes are named {twice!r}.")
        self._arguments = {name: -1 - index for index, (name, _) in enumerate(body.arguments)}
        self._where = f" in function {body.function!r}" if body.function else ""
        named = {} if body.function else self._names
        self._sources: dict[str, Source] = {name: (node, 0) for name, node in named.items()}  # grows by what is read
        edges: list[tuple[int, int]] = []
        self.inputs = [self._inputs_of(index, edges) for index in range(len(body.nodes))]
        self.results = [self._source(text, f"result {name!r}") for name, text, _ in body.results]
        self._refuse_cycles(edges)

    def upstream(self, nodes: Iterable[int]) -> list[int]:
        """These nodes and all whose values they depend on, in order."""
        return sorted(reached(nodes, lambda index: [maker for maker, _ in self.inputs[index] if maker >= 0]))

    def _inputs_of(self, index: int, edges: list[tuple[int, int]]) -> list[Source]:
        node, known = self.body.nodes[index], self._sources
        sources: list[Source] = []
        before = len(edges)
        for text in node.input:
            if text[:1] == "^":
                edges.append((self._control(text, node), index))
                continue
            if len(sources) < len(edges) - before:
                raise GraphError(
                    f"Node {node.name!r} ({node.op}){self._where} has a control input before its input {text!r}: "
                    f"data inputs come first."
                )
            source = known.get(text)
            if source is None:
                source = known[text] = self._source(text, f"node {node.name!r} ({node.op})")
            sources.append(source)
            edges.append((source[0], index))
        if len(sources) != len(self.signatures[index].inputs):
            raise GraphError(
                f"Node {node.name!r} ({node.op}){self._where} has {len(sources)} inputs, "
                f"its op takes {len(self.signatures[index].inputs)}."
            )
        return sources

    def _control(self, text: str, node: Any) -> int:
        name = text[1:]
        if name in self._arguments:
            return self._arguments[name]
        if name not in self._names:
            raise GraphError(f"Node {node.name!r} ({node.op}){self._where} waits for {name!r}, which does not exist.")
        return self._names[name]

    def _source(self, text: str, reader: str) -> Source:
        """Resolve an input string: `name[:port]` in a graph, `name:output:index` or an argument in a function."""
        name, *rest = text.split(":")
        if self.body.function and name in self._arguments and rest in ([], ["0"]):
            return (self._arguments[name], 0)
        node = self._names.get(name)
        port = None if node is None else self._port(node, rest)
        if node is None or port is None or not 0 <= port < len(self.signatures[node].outputs):
            raise GraphError(f"An input of {reader}{self._where} is {text!r}, which does not exist.")
        return (node, port)

    def _port(self, node: int, rest: list[str]) -> int | None:
        *output, index = rest or ["0"]
        if not index.isdecimal() or len(index) > LONGEST_PORT:
            return None
        if not self.body.function:
            return None if output else int(index)
        start = self.signatures[node].output_starts.get(output[0]) if len(output) == 1 else None
        return None if start is None else start + int(index)

    def _refuse_cycles(self, edges: list[tuple[int, int]]) -> None:
        """A cycle is legal only if it closes through a NextIteration, as the loops of TensorFlow 1 do."""
        nodes = self.body.nodes
        if all(source < target for source, target in edges):
            return
        closing = {index for index, node in enumerate(nodes) if node.op in ("NextIteration", "RefNextIteration")}
        before: dict[int, set[int]] = defaultdict(set)
        for source, target in edges:
            if source >= 0 and source not in closing:
                before[target].add(source)
        try:
            TopologicalSorter(before).prepare()
        except CycleError as error:
            cycle = " -> ".join(nodes[index].name for index in reversed(error.args[1]))
            raise GraphError(f"There is a cycle{self._where} outside a loop: {cycle}.") from None


def source(text: str) -> tuple[str, int | None]:
    """The node and the port that an input string names; None stands for a control input."""
    if text[:1] == "^":
        return text[1:], None
    name, _, port = text.partition(":")
    if port and not (port.isdecimal() and len(port) <= LONGEST_PORT):
        raise GraphError(f"There is no output {text!r}: what follows the colon is no number.")
    return name, int(port or 0)


def node_name(text: str) -> str:
    """The node, or the argument of a function, that an input string or the name of a tensor belongs to."""
    return text.removeprefix("^").partition(":")[0]
