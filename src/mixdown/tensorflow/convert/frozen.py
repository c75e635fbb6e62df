"""A frozen graph, a GraphDef in a file, converted. See `convert`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensorflow.core.framework import graph_pb2

from mixdown.errors import GraphError
from mixdown.tensorflow.convert import constants
from mixdown.tensorflow.convert.body_editor import Sheet
from mixdown.tensorflow.convert.conversion import Conversion, make_report
from mixdown.tensorflow.convert.meta_graph import rewrite_meta_graph
from mixdown.tensorflow.protos import signatures
from mixdown.tensorflow.protos.files import proto_in
from mixdown.tensorflow.protos.wiring import source as input_source

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mixdown.core import Policy

FEEDS = {"Placeholder", "PlaceholderV2", "PlaceholderWithDefault"}


def convert(source: Path, target: Path, policy: Policy, outputs: Sequence[str], *, low_weights: bool) -> Conversion:
    """Convert a GraphDef from file to file. Nodes that nobody reads are taken for its outputs.

    Raises:
        GraphError: the file holds no graph, or a broken one.
    """
    graph_def = _read(source)
    names = {node.name for node in graph_def.node}
    if missing := sorted(set(outputs) - names):
        raise GraphError(f"The graph has no node {', '.join(map(repr, missing))} that could be an output.")
    ends = {*_unread(graph_def), *outputs}
    feeds = {node.name for node in graph_def.node if node.op in FEEDS}
    plans = rewrite_meta_graph(graph_def, policy, roots=(), preserved=feeds, outputs=ends)
    stored = _store_constants(graph_def, signatures.LOW_TYPES[policy.low], ends | feeds) if low_weights else 0
    target.write_bytes(graph_def.SerializeToString(deterministic=True))
    report = make_report(source.name, {"graph": plans[""]}, ())
    return Conversion(target, report, (), stored, target.with_name(f"{target.name}.mixdown-report.html"))


def _read(source: Path) -> Any:
    graph_def = proto_in(source, graph_pb2.GraphDef, "holds no GraphDef")
    if not graph_def.node:
        raise GraphError(f"The GraphDef in {str(source)!r} has no nodes. A saved_model.pb is converted by its folder.")
    return graph_def


def _unread(graph_def: Any) -> list[str]:
    read = {input_source(text)[0] for node in graph_def.node for text in node.input}
    return [node.name for node in graph_def.node if node.name not in read]


def _store_constants(graph_def: Any, low: int, preserved: set[str]) -> int:
    library = {function.signature.name: function for function in graph_def.library.function}
    count = 0
    for proto, kept in ((graph_def, preserved), *((function, set()) for function in library.values())):
        sheet = Sheet(proto, library, low)
        count += constants.store_low(sheet, kept)
        sheet.finish()
    return count
