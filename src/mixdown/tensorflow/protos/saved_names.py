"""What signatures, variables, savers and assets of a saved graph name. Start with `asked_for` and `outputs_of`."""

from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # its types are a package of their own
from tensorflow.core.framework import variable_pb2
from tensorflow.core.protobuf import meta_graph_pb2

from mixdown.errors import GraphError
from mixdown.tensorflow.protos.wiring import node_name, source

VARIABLES = (
    tf.compat.v1.GraphKeys.GLOBAL_VARIABLES,
    tf.compat.v1.GraphKeys.TRAINABLE_VARIABLES,
    tf.compat.v1.GraphKeys.LOCAL_VARIABLES,
    tf.compat.v1.GraphKeys.MODEL_VARIABLES,
    tf.compat.v1.GraphKeys.MOVING_AVERAGE_VARIABLES,
)
"""The collections of TensorFlow 1 that hold variables."""


def asked_for(meta_graph: Any) -> set[str]:
    """The names of the nodes that a loader or its user asks for, besides the plain outputs of signatures."""
    saver = meta_graph.saver_def
    found = {saver.filename_tensor_name, saver.save_tensor_name, saver.restore_op_name}
    found.update((*_collected(meta_graph), *_assets(meta_graph.asset_file_def)))
    for signature in meta_graph.signature_def.values():
        for info in signature.inputs.values():
            found.update(tensor_names(info))
        for info in signature.outputs.values():
            found.update(tensor_names(info)[1:])
    for variable in variables(meta_graph):
        found.update((variable.variable_name, variable.initializer_name))
        found.update((variable.initial_value_name, variable.snapshot_name))
    return _nodes(meta_graph, found)


def outputs_of(meta_graph: Any) -> set[str]:
    """The names of the nodes that are plain outputs of signatures."""
    signatures = meta_graph.signature_def.values()
    return _nodes(meta_graph, {info.name for signature in signatures for info in signature.outputs.values()})


def sinks(graph_def: Any) -> tuple[str, ...]:
    """The names of the nodes that no other node reads or waits for."""
    read = {source(text)[0] for node in graph_def.node for text in node.input}
    return tuple(node.name for node in graph_def.node if node.name not in read)


def refuse_dangling(meta_graph: Any) -> None:
    """Refuse signatures of tensors, and references to Python objects, that do not exist."""
    nodes = {node.name for node in meta_graph.graph_def.node}
    for key, signature in meta_graph.signature_def.items():
        for info in (*signature.inputs.values(), *signature.outputs.values()):
            for name in filter(None, tensor_names(info)):
                if source(name)[0] not in nodes:
                    raise GraphError(f"The signature {key!r} speaks of {name!r}, which is not in the graph.")
    objects = meta_graph.object_graph_def
    named = [child.node_id for node in objects.nodes for child in node.children]
    named += [number for function in objects.concrete_functions.values() for number in function.bound_inputs]
    if strange := sorted({number for number in named if not 0 <= number < len(objects.nodes)}):
        raise GraphError(f"The model refers to the object {strange[0]}, and has only {len(objects.nodes)}.")


def _nodes(meta_graph: Any, names: set[str]) -> set[str]:
    """The nodes behind names of nodes and tensors, as far as they exist."""
    return set(map(node_name, names)) & {node.name for node in meta_graph.graph_def.node}


def variables(meta_graph: Any) -> list[Any]:
    """The variables that the graph's collections describe."""
    collections = [meta_graph.collection_def[key] for key in VARIABLES if key in meta_graph.collection_def]
    try:
        return [variable_pb2.VariableDef.FromString(text) for each in collections for text in each.bytes_list.value]
    except DecodeError:
        raise GraphError("A collection of variables holds something else.") from None


def tensor_names(info: Any) -> list[str]:
    """The tensors behind one input or output of a signature; a name is "" where there is none of that sort."""
    sparse = info.coo_sparse
    parts = (sparse.values_tensor_name, sparse.indices_tensor_name, sparse.dense_shape_tensor_name)
    return [info.name, *parts, *(name for part in info.composite_tensor.components for name in tensor_names(part))]


def _collected(meta_graph: Any) -> Iterator[str]:
    for collection in meta_graph.collection_def.values():
        yield from collection.node_list.value
        for packed in collection.any_list.value:
            asset = meta_graph_pb2.AssetFileDef()
            if packed.Unpack(asset):
                yield from _assets([asset])


def _assets(assets: Any) -> list[str]:
    return [asset.tensor_info.name for asset in assets]
