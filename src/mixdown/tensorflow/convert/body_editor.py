"""A graph or function whose values change from float32 to 16 bits, with the casts that takes. See `BodyEditor`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from mixdown.tensorflow.protos import signatures
from mixdown.tensorflow.protos.bodies import function_body, graph_body
from mixdown.tensorflow.protos.cast_node import cast_node, is_cast
from mixdown.tensorflow.protos.library import kind_of, replace_all, unused
from mixdown.tensorflow.protos.wiring import Source, Wiring, node_name
from mixdown.tensorflow.reading.builder import RESULT

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mixdown.tensorflow.protos.bodies import Body


class Reader(NamedTuple):
    """Where a value is read: an input of a node, or (with `node` RESULT) a result of the function."""

    node: int
    position: int


class BodyEditor:
    """A graph or function, and what reads each of its values. Edits change the proto, not the record of readers."""

    def __init__(self, proto: Any, library: Mapping[str, Any], low: int) -> None:
        self.proto, self.low = proto, low
        self.body: Body = graph_body(proto) if hasattr(proto, "library") else function_body(proto)
        self.nodes = self.body.nodes
        kinds = [(kind_of(node, library), node) for node in self.nodes]
        wiring = Wiring(self.body, [signatures.make_signature(kind, kind.values(node)) for kind, node in kinds])
        self.inputs, self.results = wiring.inputs, wiring.results
        self._readers: dict[Source, list[Reader]] = {}
        for index, sources in enumerate(self.inputs):
            for position, source in enumerate(sources):
                self._readers.setdefault(source, []).append(Reader(index, position))
        for position, source in enumerate(self.results):
            self._readers.setdefault(source, []).append(Reader(RESULT, position))
        self._names = {node.name for node in self.nodes}
        self._idle: set[str] = set()

    def readers(self, source: Source) -> list[Reader]:
        """Where a value is read."""
        return self._readers.get(source, [])

    def is_lowered(self, reader: Reader) -> bool:
        """Whether a reader is a cast of float32 to the low dtype."""
        return reader.node >= 0 and is_cast(self.nodes[reader.node], signatures.FLOAT, self.low)

    def adapt_readers(self, source: Source, ready: Collection[Reader] = ()) -> None:
        """After a value became low: readers that neither cast it nor are `ready` for it get a cast to float32."""
        self.skip_casts(source)
        others = [reader for reader in self.readers(source) if not self._is_skipped(reader) and reader not in ready]
        if others:
            text = self._text(others[0])
            back = self.add_cast(text, f"{node_name(text)}/cast_to_float32", self.low, signatures.FLOAT)
            for reader in others:
                self._redirect(reader, back)

    def skip_casts(self, source: Source) -> None:
        """After a value became low: let readers of its casts to the low dtype read the value itself."""
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
        if node < 0 or not is_cast(self.nodes[node], self.low, signatures.FLOAT):
            self.read_low(Reader(RESULT, position))
            return
        self._redirect(Reader(RESULT, position), self.nodes[node].input[0])
        if len(self.readers((node, 0))) == 1:
            self._idle.add(self.nodes[node].name)

    def read_low(self, reader: Reader) -> None:
        """Let a reader of a float32 value get it low."""
        text = self._text(reader)
        self._redirect(reader, self.add_cast(text, f"{node_name(text)}/cast_to_low", signatures.FLOAT, self.low))

    def add_cast(self, text: str, name: str, from_type: int, to_type: int) -> str:
        """Add a cast; returns the text by which its output is read."""
        node = cast_node(unused(name, self._names), text, from_type, to_type)
        self._all_nodes.append(node)
        return f"{node.name}:y:0" if self.body.function else node.name

    @property
    def _all_nodes(self) -> Any:
        """The nodes of the proto, added ones included."""
        return self.proto.node_def if self.body.function else self.proto.node

    def finish(self) -> None:
        """Remove the casts that are not read any more."""
        nodes = self._all_nodes
        waited_for = {text[1:] for node in nodes for text in node.input if text[:1] == "^"}
        waited_for.update(self.proto.control_ret.values() if self.body.function else ())
        if gone := self._idle - waited_for:
            replace_all(nodes, [node for node in nodes if node.name not in gone])

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
