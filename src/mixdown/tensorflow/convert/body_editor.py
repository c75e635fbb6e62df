"""A graph or function whose values change from float32 to 16 bits, with the casts that takes. See `BodyEditor`."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from mixdown.tensorflow.protos import signatures
from mixdown.tensorflow.protos.bodies import function_body, graph_body, is_cast
from mixdown.tensorflow.protos.library import kind_of, replace_all
from mixdown.tensorflow.protos.wiring import Source, WiredBody, node_name
from mixdown.tensorflow.reading.builder import RESULT
from mixdown.tensorflow.writing.apply import EditedBody


class Reader(NamedTuple):
    """Where a value is read: an input of a node of a body ("" is the graph), or (with `node` RESULT) a result of it."""

    body: str
    node: int
    position: int = 0


class BodyEditor(EditedBody):
    """A graph or function, and what reads each of its values. Edits change the proto, not the record of readers."""

    def __init__(self, proto: Any, library: Mapping[str, Any], low: int) -> None:
        super().__init__(proto, graph_body(proto) if hasattr(proto, "library") else function_body(proto))
        self.low, self.nodes = low, self.body.nodes
        kinds = [(kind_of(node, library), node) for node in self.nodes]
        wiring = WiredBody(self.body, [signatures.make_signature(kind, kind.values(node)) for kind, node in kinds])
        self.inputs, self.results = wiring.inputs, wiring.results
        self._readers: dict[Source, list[Reader]] = {}
        for index, sources in (*enumerate(self.inputs), (RESULT, self.results)):
            for position, source in enumerate(sources):
                self._readers.setdefault(source, []).append(Reader(self.body.function, index, position))
        self._idle: set[str] = set()  # casts that are not read any more

    def readers(self, source: Source) -> list[Reader]:
        """Where a value is read."""
        return self._readers.get(source, [])

    def is_lowered(self, reader: Reader) -> bool:
        """Whether a reader is a cast of float32 to the low dtype."""
        return reader.node >= 0 and is_cast(self.nodes[reader.node], signatures.FLOAT, self.low)

    def adapt_readers(self, source: Source, ready: Collection[Reader] = ()) -> None:
        """After a value became low: readers that neither cast it nor are `ready` for it get a cast to float32."""
        self.skip_casts(source)
        others = [
            reader
            for reader in self.readers(source)
            if reader not in ready and (reader.node < 0 or self.nodes[reader.node].name not in self._idle)
        ]
        if others:
            text = self.text(*others[0][1:])
            back = self.add_cast(text, f"{node_name(text)}/cast_to_float32", self.low, signatures.FLOAT)
            for _, node, position in others:
                self.redirect(node, position, back)

    def skip_casts(self, source: Source) -> None:
        """After a value became low: let readers of its casts to the low dtype read the value itself."""
        for reader in filter(self.is_lowered, self.readers(source)):
            cast = self.nodes[reader.node]
            cast.attr["SrcT"].type = self.low
            for _, node, position in self.readers((reader.node, 0)):
                self.redirect(node, position, cast.input[0])
            self._idle.add(cast.name)

    def return_low(self, position: int) -> None:
        """Let a result of a function be low."""
        node, _ = self.results[position]
        if node < 0 or not is_cast(self.nodes[node], self.low, signatures.FLOAT):
            self.read_low(RESULT, position)
            return
        self.redirect(RESULT, position, self.nodes[node].input[0])
        if len(self.readers((node, 0))) == 1:
            self._idle.add(self.nodes[node].name)

    def read_low(self, node: int, position: int) -> None:
        """Put a cast to the low dtype before an input of a node, or before a result."""
        text = self.text(node, position)
        self.redirect(node, position, self.add_cast(text, f"{node_name(text)}/cast_to_low", signatures.FLOAT, self.low))

    def finish(self) -> None:
        """Remove the casts that are not read any more."""
        waited_for = {text[1:] for node in self.all_nodes for text in node.input if text[:1] == "^"}
        waited_for.update(self.proto.control_ret.values() if self.body.function else ())
        if gone := self._idle - waited_for:
            replace_all(self.all_nodes, [node for node in self.all_nodes if node.name not in gone])
