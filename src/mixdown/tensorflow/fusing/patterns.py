"""Small graphs that are looked for in larger ones: `pattern`, written as lines, and `matches`.

A line such as `scaled = Mul(x, factor)` stands for one node and what it reads. A name that no line defines stands for
any value. What an AddN adds may come in any order, and `...` stands for more that it adds.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mixdown.tensorflow.protos import signatures
from mixdown.tensorflow.protos.bodies import Body
from mixdown.tensorflow.protos.wiring import node_name

_LINE = re.compile(r"([\w']+) = (\w+)\((.*)\)")
_ANY_ORDER = "AddN"
_MORE = "..."

Match = Mapping[str, str]
"""By the names in a pattern, the values that they stand for, as inputs of nodes name them."""


class Row(NamedTuple):
    """One node of a pattern: it has one output, and reads before what it makes is read."""

    name: str
    kind: str
    operands: tuple[str, ...]
    more: bool = False  # whether it may read other values as well


def pattern(text: str) -> list[Row]:
    """The pattern that lines describe, in an order in which each reads, or is read by, one before it."""
    rows = []
    for name, kind, listed in _LINE.findall(text):
        operands = [each for each in listed.split(", ") if each]
        rows.append(Row(name, kind, tuple(each for each in operands if each != _MORE), _MORE in operands))
    return rows


class Wires:
    """The nodes of a body by name, and which of them read each value."""

    def __init__(self, body: Body) -> None:
        self.body = body
        self.nodes = {node.name: node for node in body.nodes}
        self.readers: dict[str, dict[str, None]] = defaultdict(dict)  # value -> names of nodes
        for node in body.nodes:
            for text in self.operands(node):
                self.readers[text][node.name] = None

    def operands(self, node: Any) -> list[str]:
        """The values that a node reads."""
        return [text if self.body.function else text.removesuffix(":0") for text in node.input if text[:1] != "^"]

    def output(self, node: Any, port: int = 0) -> str:
        """An output of a node, none of whose outputs is a list."""
        if not self.body.function:
            return f"{node.name}:{port}" if port else str(node.name)
        kind = signatures.kind_of(node.op)
        assert kind is not None  # noqa: S101 - patterns are made of ops that TensorFlow registers
        return f"{node.name}:{kind.definition.output_arg[port].name}:0"


def matches(rows: Sequence[Row], wires: Wires, known: Match) -> Iterator[Match]:
    """Every way to find a pattern around values that are known; no node takes two places."""
    if not rows:
        yield known
        return
    row, *others = rows
    for name in _candidates(row, wires, known):
        node = wires.nodes.get(name)
        if node is not None and node.op == row.kind and (found := _fitted(row, node, wires, known)):
            yield from matches(others, wires, found)


def _candidates(row: Row, wires: Wires, known: Match) -> Iterable[str]:
    """The nodes that may stand for a row."""
    if row.name in known:
        return (node_name(known[row.name]),)
    return wires.readers[next(known[operand] for operand in row.operands if operand in known)]


def _fitted(row: Row, node: Any, wires: Wires, known: Match) -> Match | None:
    """What is known if a node stands for a row, None if it cannot."""
    made, read = wires.output(node), wires.operands(node)
    found = dict(known)
    if found.setdefault(row.name, made) != made or (row.name not in known and made in known.values()):
        return None
    if row.kind == _ANY_ORDER:
        wanted = [known[operand] for operand in row.operands]
        fits = all(read.count(each) == 1 for each in wanted) and (row.more or len(read) == len(wanted))
    else:
        fits = len(read) == len(row.operands) and all(
            found.setdefault(operand, text) == text for operand, text in zip(row.operands, read, strict=True)
        )
    return found if fits else None
