"""Graphs that lie in files: SavedModels and GraphDefs. Start with `load`."""

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from tensorflow.core.framework import graph_debug_info_pb2, graph_pb2

from mixdown.errors import GraphError
from mixdown.tensorflow.protos import files
from mixdown.tensorflow.protos.bodies import reached
from mixdown.tensorflow.protos.saved_names import sinks, tensor_names
from mixdown.tensorflow.protos.wiring import node_name
from mixdown.untrusted.model_files import is_file, kind_of, refuse_signatures, saved_model_folder

DEBUG_INFO = "debug/saved_model_debug_info.pb"
"""Where a SavedModel keeps source lines, if it was saved with `tf.saved_model.SaveOptions(save_debug_info=True)`."""

INTERNAL = "__saved_model"
"""How the names of signatures begin that TensorFlow adds for itself."""


class StoredGraph(NamedTuple):
    """A graph with what is fed and fetched."""

    name: str
    graph_def: Any
    feeds: tuple[str, ...]
    fetches: tuple[str, ...]
    debug_info: Any = None  # of the SavedModel it lies in, if that was saved with it


def load(path: Path, signatures: Collection[str] = ()) -> list[StoredGraph]:
    """The signatures of a SavedModel, or the one graph of a file.

    Args:
        path: a SavedModel's directory, or a `.pb` or `.pbtxt` file with a GraphDef.
        signatures: which signatures to take, all by default.

    Raises:
        GraphError: there is no such file, it holds something else, or it has no such signature.
    """
    folder = saved_model_folder(path)
    if kind_of(folder) == "SavedModel":
        return _signatures(folder, signatures)
    refuse_signatures(path, signatures)
    graph_def = files.proto_in(path, graph_pb2.GraphDef, "does not hold a GraphDef")
    return [StoredGraph(path.name, graph_def, (), sinks(graph_def))]


def _signatures(folder: Path, wanted: Collection[str]) -> list[StoredGraph]:
    metas = files.saved_model_in(folder).meta_graphs
    meta = max(metas, key=lambda meta: "serve" in meta.meta_info_def.tags)
    known = sorted(name for name in meta.signature_def if not name.startswith(INTERNAL))
    if unknown := sorted(set(wanted) - set(known)):
        raise GraphError(f"{folder} has no signature {', '.join(unknown)}; it has {', '.join(known) or 'none'}.")
    if not known:
        raise GraphError(f"{folder} has no signatures: save it with tf.saved_model.save(..., signatures=...).")
    lines, kind = folder / DEBUG_INFO, graph_debug_info_pb2.GraphDebugInfo
    debug_info = files.proto_in(lines, kind, "does not hold debug info") if is_file(lines) else None
    return [_signature(name, meta, debug_info) for name in known if not wanted or name in wanted]


def _signature(name: str, meta: Any, debug_info: Any) -> StoredGraph:
    signature = meta.signature_def[name]
    feeds, fetches = (
        tuple(sorted({name for info in ends.values() for name in tensor_names(info) if name}))
        for ends in (signature.inputs, signature.outputs)
    )
    return StoredGraph(name, pruned(meta.graph_def, fetches), feeds, fetches, debug_info)


def pruned(graph_def: Any, fetches: Iterable[str]) -> Any:
    """The part of a graph that is needed for some tensors."""
    nodes = {node.name: node for node in graph_def.node}
    needed = set(
        reached(map(node_name, fetches), lambda name: map(node_name, nodes[name].input if name in nodes else ()))
    )
    kept = [node for node in graph_def.node if node.name in needed]
    return graph_pb2.GraphDef(node=kept, library=graph_def.library, versions=graph_def.versions)
