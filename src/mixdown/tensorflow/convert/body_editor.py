"""One body under the pen: who reads what in it, and how a value that has become low is handed on. See `Sheet`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from mixdown.tensorflow.protos import signatures
from mixdown.tensorflow.protos.bodies import function_body, graph_body
from mixdown.tensorflow.protos.wiring import Source, WiredBody
from mixdown.tensorflow.reading.builder import RESULT
from mixdown.tensorflow.writing.apply import unused

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mixdown.tensorflow.protos.bodies import Body
    from mixdown.tensorflow.protos.signatures import Signature


class Reader(NamedTuple):
    """Where a value is read: an input of a node, or (with `node` RESULT) a result of the function."""

    node: int
    position: int


class Sheet:
    """A graph or function with its wires. Edits change the proto, not the wires: nothing is asked of what is new."""

    def __init__(self, proto: Any, library: Mapping[str, Any], low: int) -> None:
        self.proto, self.low = proto, low
        self.body: Body = graph_body(proto) if hasattr(proto, "library") else function_body(proto)
        self.nodes = self.body.nodes
        self._wiring = WiredBody(self.body, [_signature(node, library) for node in self.nodes])
        self.inputs, self.results = self._wiring.inputs, self._wiring.results
        self._readers: dict[Source, list[Reader]] = {}
        for index, sources in enumerate(self.inputs):
            for position, source in enumerate(sources):
                self._readers.setdefault(source, []).append(Reader(index, position))
        for position, source in enumerate(self.results):
            self._readers.setdefault(source, []).append(Reader(RESULT, position))
        self._names = {node.name for node in self.nodes}
        self._idle: set[str] = set()

    def readers(self, source: Source) -> list[Reader]:
        """All who read a value."""
        return self._readers.get(source, [])

    def is_lowered(self, reader: Reader) -> bool:
        """Whether a reader is a cast of float32 to the low dtype."""
        return reader.node >= 0 and _casts(self.nodes[reader.node], signatures.FLOAT, self.low)

    def hand_on(self, source: Source, ready: Collection[Reader] = ()) -> None:
        """A value has become low: who is ready for it, or cast it, gets it as it is, the others through a cast."""
        self.skip_casts(source)
        others = [reader for reader in self.readers(source) if not self._is_skipped(reader) and reader not in ready]
        if others:
            text = self._text(others[0])
            back = self.add_cast(text, f"{text.partition(':')[0]}/cast_to_float32", self.low, signatures.FLOAT)
            for reader in others:
                self._redirect(reader, back)

    def skip_casts(self, source: Source) -> None:
        """A value has become low: let those who read a cast of it to the low dtype read the value itself."""
        for reader in self.readers(source):
            if self.is_lowered(reader):
                cast = self.nodes[reader.node]
                cast.attr["SrcT"].type = self.low
                for further in self.readers((reader.node, 0)):
                    self._redirect(further, cast.input[0])
                self._idle.add(cast.name)

    def return_low(self, position: int) -> None:
        """Let a result of a function be low."""
        node, _ = self.results[position]
        if node < 0 or not _casts(self.nodes[node], self.low, signatures.FLOAT):
            self.read_low(Reader(RESULT, position))
            return
        self._redirect(Reader(RESULT, position), self.nodes[node].input[0])
        if len(self.readers((node, 0))) == 1:
            self._idle.add(self.nodes[node].name)

    def read_low(self, reader: Reader) -> None:
        """Let a reader of a float32 value get it low."""
        text = self._text(reader)
        self._redirect(reader, self.add_cast(text, f"{text.partition(':')[0]}/cast_to_low", signatures.FLOAT, self.low))

    def add_cast(self, text: str, name: str, from_type: int, to_type: int) -> str:
        """Add a cast; returns the text by which its output is read."""
        nodes = self.proto.node_def if self.body.function else self.proto.node
        node = nodes.add(name=unused(name, self._names), op="Cast", input=[text])
        node.attr["SrcT"].type, node.attr["DstT"].type = from_type, to_type
        node.attr["Truncate"].b = False
        return f"{node.name}:y:0" if self.body.function else node.name

    def finish(self) -> None:
        """Remove the casts that nobody reads any more."""
        nodes = self.proto.node_def if self.body.function else self.proto.node
        waited_for = {text[1:] for node in nodes for text in node.input if text[:1] == "^"}
        waited_for.update(self.proto.control_ret.values() if self.body.function else ())
        kept = [node for node in nodes if node.name not in self._idle - waited_for]
        if len(kept) < len(nodes):
            copies = [type(node).FromString(node.SerializeToString()) for node in kept]
            del nodes[:]
            nodes.extend(copies)

    def _is_skipped(self, reader: Reader) -> bool:
        return reader.node >= 0 and self.nodes[reader.node].name in self._idle

    def _text(self, reader: Reader) -> str:
        """How a reader names what it reads."""
        if reader.node == RESULT:
            return self.proto.ret[self.body.results[reader.position][0]]
        return self.nodes[reader.node].input[reader.position]

    def _redirect(self, reader: Reader, text: str) -> None:
        if reader.node == RESULT:
            self.proto.ret[self.body.results[reader.position][0]] = text
        else:
            self.nodes[reader.node].input[reader.position] = text


def _casts(node: Any, from_type: int, to_type: int) -> bool:
    return node.op == "Cast" and node.attr["SrcT"].type == from_type and node.attr["DstT"].type == to_type


def _signature(node: Any, library: Mapping[str, Any]) -> Signature:
    kind = signatures.kind_of(node.op)
    if kind is None:
        kind = signatures.prepare(library[node.op].signature)
    return signatures.make_signature(kind, kind.values(node))
