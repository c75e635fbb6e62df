"""A frozen graph, which is a GraphDef in a file, converted: `convert`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensorflow.core.framework import graph_pb2

from mixdown.errors import GraphError
from mixdown.tensorflow.convert.body_editor import BodyEditor
from mixdown.tensorflow.convert.meta_graph import rewrite_meta_graph
from mixdown.tensorflow.convert.stored_values import store_constants
from mixdown.tensorflow.protos import signatures
from mixdown.tensorflow.protos.files import proto_in
from mixdown.tensorflow.protos.library import by_name
from mixdown.tensorflow.protos.saved_names import sinks

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mixdown.core import Plan, Policy

FEEDS = {"Placeholder", "PlaceholderV2", "PlaceholderWithDefault"}


def convert(
    source: Path, target: Path, policy: Policy, outputs: Sequence[str], *, low_weights: bool
) -> tuple[Plan, int]:
    """Convert a GraphDef from file to file. Nodes that no other reads are its outputs, besides those named.

    Returns:
        The plan of the graph, and how many constants are stored in 16 bits.

    Raises:
        GraphError: the file holds no graph, or a broken one.
    """
    graph_def = proto_in(source, graph_pb2.GraphDef, "holds no GraphDef")
    if not graph_def.node:
        raise GraphError(f"The GraphDef in {str(source)!r} has no nodes. A saved_model.pb is converted by its folder.")
    if missing := sorted(set(outputs) - {node.name for node in graph_def.node}):
        raise GraphError(f"The graph has no node {', '.join(map(repr, missing))} that could be an output.")
    ends = {*sinks(graph_def), *outputs}
    feeds = {node.name for node in graph_def.node if node.op in FEEDS}
    plans = rewrite_meta_graph(graph_def, policy, roots=(), preserved=feeds, outputs=ends)
    stored = _store_constants(graph_def, signatures.LOW_TYPES[policy.low], ends | feeds) if low_weights else 0
    target.write_bytes(graph_def.SerializeToString(deterministic=True))
    return plans[""], stored


def _store_constants(graph_def: Any, low: int, preserved: set[str]) -> int:
    library, count = by_name(graph_def), 0
    for proto in (graph_def, *library.values()):
        editor = BodyEditor(proto, library, low)
        count += store_constants(editor, preserved if proto is graph_def else set())
        editor.finish()
    return count
