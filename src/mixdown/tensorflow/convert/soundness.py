"""What a saved graph refers to must be there: `refuse_dangling` looks before anything is converted."""

from __future__ import annotations

from typing import Any

from mixdown.errors import GraphError
from mixdown.tensorflow.convert.names import tensor_names
from mixdown.tensorflow.protos.wiring import source


def refuse_dangling(meta_graph: Any) -> None:
    """Refuse signatures of tensors, and references to Python objects, that do not exist.

    Raises:
        GraphError: there is such a one.
    """
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
