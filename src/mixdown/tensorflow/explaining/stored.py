"""Graphs that lie in files: SavedModels and GraphDefs. Start with `load`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tensorflow.core.framework import graph_debug_info_pb2, graph_pb2
from tensorflow.core.protobuf import saved_model_pb2

from mixdown.errors import GraphError
from mixdown.tensorflow.protos.files import is_dir, is_file, proto_in
from mixdown.tensorflow.protos.saved_names import sinks, tensor_names
from mixdown.tensorflow.protos.wiring import node_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

SAVED_MODEL = "saved_model"
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
    folder = path.parent if path.stem == SAVED_MODEL else path
    if is_dir(folder):
        return _signatures(folder, signatures)
    if signatures:
        raise GraphError(f"{path} is no SavedModel, so it has no signatures.")
    graph_def = _parse(path, graph_pb2.GraphDef, "a GraphDef")
    return [StoredGraph(path.name, graph_def, (), sinks(graph_def))]


def _signatures(folder: Path, wanted: Collection[str]) -> list[StoredGraph]:
    files = [folder / f"{SAVED_MODEL}{ending}" for ending in (".pb", ".pbtxt")]
    file = next((file for file in files if file.is_file()), None)
    if file is None:
        raise GraphError(f"{folder} is no SavedModel: it has no {files[0].name}.")
    saved = _parse(file, saved_model_pb2.SavedModel, "a SavedModel")
    if not saved.meta_graphs:
        raise GraphError(f"{str(file)!r} does not hold a SavedModel: there is no graph in it.")
    meta = max(saved.meta_graphs, key=lambda meta: "serve" in meta.meta_info_def.tags)
    known = sorted(name for name in meta.signature_def if not name.startswith(INTERNAL))
    if unknown := sorted(set(wanted) - set(known)):
        raise GraphError(f"{folder} has no signature {', '.join(unknown)}; it has {', '.join(known) or 'none'}.")
    if not known:
        raise GraphError(f"{folder} has no signatures: save it with tf.saved_model.save(..., signatures=...).")
    lines = folder / DEBUG_INFO
    debug_info = _parse(lines, graph_debug_info_pb2.GraphDebugInfo, "debug info") if is_file(lines) else None
    stored = [_signature(name, meta) for name in known if not wanted or name in wanted]
    return [one._replace(debug_info=debug_info) for one in stored]


def _signature(name: str, meta: Any) -> StoredGraph:
    signature = meta.signature_def[name]
    feeds, fetches = (
        tuple(sorted({name for info in ends.values() for name in tensor_names(info) if name}))
        for ends in (signature.inputs, signature.outputs)
    )
    return StoredGraph(name, pruned(meta.graph_def, fetches), feeds, fetches)


def pruned(graph_def: Any, fetches: Iterable[str]) -> Any:
    """The part of a graph that is needed for some tensors."""
    nodes = {node.name: node for node in graph_def.node}
    queue = [node_name(text) for text in fetches]
    needed = set(queue)
    for name in queue:
        before = {node_name(text) for text in nodes[name].input} if name in nodes else set()
        queue.extend(sorted(before - needed))
        needed |= before
    kept = [node for node in graph_def.node if node.name in needed]
    return graph_pb2.GraphDef(node=kept, library=graph_def.library, versions=graph_def.versions)


def _parse(path: Path, kind: Any, what: str) -> Any:
    if not is_file(path):
        raise GraphError(f"There is no file {str(path)!r}.")
    return proto_in(path, kind, f"does not hold {what}")
