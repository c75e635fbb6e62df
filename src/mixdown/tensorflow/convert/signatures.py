"""Signatures that take and return the 16-bit dtype: `io="low"`. Start with `lower_signatures`."""

from collections.abc import Mapping
from typing import Any

from tensorflow.core.framework import types_pb2

from mixdown.errors import GraphError
from mixdown.tensorflow.convert.body_editor import BodyEditor, Reader
from mixdown.tensorflow.convert.stored_values import lowered_constant
from mixdown.tensorflow.convert.value_paths import CALLS_BY_LIST
from mixdown.tensorflow.protos import signatures
from mixdown.tensorflow.protos.library import by_name, output_types
from mixdown.tensorflow.protos.wiring import node_name

FEEDS = {"Placeholder", "PlaceholderV2"}
"""Kinds of inputs whose dtype may change: the dtype of any other op that is fed follows from its own inputs."""


def lower_signatures(meta_graph: Any, low: int) -> list[str]:
    """Let all signatures take and return 16 bits, in place; returns a warning for every input that stays float32."""
    library = by_name(meta_graph.graph_def)
    lowered = {name: library[name] for name in _signature_functions(meta_graph) if name in library}
    for name, function in lowered.items():
        _lower_function(meta_graph.object_graph_def.concrete_functions[name], function, library, low)
    editor = BodyEditor(meta_graph.graph_def, library, low)
    ready = _lower_calls(editor, lowered)
    stay = _lower_inputs(meta_graph, editor, ready)
    _lower_outputs(meta_graph, editor, library)
    editor.finish()
    return stay


def _signature_functions(meta_graph: Any) -> list[str]:
    """The functions that `tf.saved_model.load(...).signatures` holds."""
    nodes = meta_graph.object_graph_def.nodes
    homes = [nodes[child.node_id] for root in nodes[:1] for child in root.children if child.local_name == "signatures"]
    found = [nodes[child.node_id] for home in homes for child in home.children]
    return [node.bare_concrete_function.concrete_function_name for node in found]


def _lower_function(saved: Any, function: Any, library: Mapping[str, Any], low: int) -> None:
    editor = BodyEditor(function, library, low)
    given = len(function.signature.input_arg) - len(saved.bound_inputs)
    for position, argument in enumerate(function.signature.input_arg[:given]):
        if argument.type == signatures.FLOAT:
            argument.type = low
            editor.adapt_readers((-1 - position, 0))
    for position, result in enumerate(function.signature.output_arg):
        if result.type == signatures.FLOAT:
            result.type = low
            editor.return_low(position)
    editor.finish()
    _retype(saved.canonicalized_input_signature, low)
    _retype(saved.output_signature, low)


def _retype(message: Any, low: int) -> None:
    """Change float32 to the low dtype wherever a description of arguments or results mentions it."""
    for field, value in message.ListFields():
        if field.enum_type is not None and field.enum_type.full_name == types_pb2.DataType.DESCRIPTOR.full_name:
            setattr(message, field.name, low if value == signatures.FLOAT else value)
        elif field.message_type is not None:
            for part in _parts(value):
                _retype(part, low)


def _parts(value: Any) -> list[Any]:
    """The messages in a field, which may hold one, several, or a map."""
    if hasattr(value, "ListFields"):
        return [value]
    return list(value.values()) if hasattr(value, "items") else list(value)


def _lower_calls(editor: BodyEditor, lowered: Mapping[str, Any]) -> set[Reader]:
    """Bring the graph's calls of these functions up to date; returns the inputs of calls that take a low value now."""
    ready: set[Reader] = set()
    made: list[tuple[int, int]] = []
    for index, node in enumerate(editor.nodes):
        if node.op in CALLS_BY_LIST and node.attr["f"].func.name in lowered:
            signature = lowered[node.attr["f"].func.name].signature
            ready |= {Reader("", index, place) for place in _retype_list(node.attr["Tin"], signature.input_arg)}
            made += [(index, port) for port in _retype_list(node.attr["Tout"], signature.output_arg)]
    for source in made:
        editor.adapt_readers(source, ready)
    return ready - {reader for source in made for reader in editor.readers(source)}


def _retype_list(value: Any, ends: Any) -> list[int]:
    """Bring the types that a call lists up to date; returns which have changed."""
    changed = [place for place, end in enumerate(ends) if value.list.type[place] != end.type]
    for place in changed:
        value.list.type[place] = ends[place].type
    return changed


def _lower_inputs(meta_graph: Any, editor: BodyEditor, ready: set[Reader]) -> list[str]:
    """Let the placeholders of all signatures be low."""
    position = {node.name: index for index, node in enumerate(editor.nodes)}
    stay, lowered = [], set()
    for key, signature in sorted(meta_graph.signature_def.items()):
        for name, info in sorted(signature.inputs.items()):
            if info.dtype != signatures.FLOAT:
                continue
            index = position.get(node_name(info.name), -1)
            if index < 0 or editor.nodes[index].op not in FEEDS:
                stay.append(f"The input {name} of {key} stays float32: it is no placeholder, but {info.name}.")
                continue
            info.dtype = editor.low
            if name in signature.defaults:
                signature.defaults[name].CopyFrom(lowered_constant(signature.defaults[name], editor.low, name))
            lowered.add(index)
    for index in sorted(lowered):
        editor.nodes[index].attr["dtype"].type = editor.low
        editor.adapt_readers((index, 0), ready)
    for reader in sorted(ready):
        if editor.inputs[reader.node][reader.position][0] not in lowered:
            editor.read_low(reader.node, reader.position)
    return stay


def _lower_outputs(meta_graph: Any, editor: BodyEditor, library: Mapping[str, Any]) -> None:
    """Let the outputs of all signatures be low: as they are if the plan made them so, else through a cast."""
    nodes = {node.name: node for node in editor.nodes}
    casts: dict[str, str] = {}
    for _, signature in sorted(meta_graph.signature_def.items()):
        for info in signature.outputs.values():
            if info.dtype != signatures.FLOAT or not info.name:
                continue
            node, _, port = info.name.partition(":")
            types = output_types(nodes[node], library)
            if int(port or 0) >= len(types):
                raise GraphError(f"A signature speaks of {info.name!r}, and {node!r} has {len(types)} outputs.")
            if types[int(port or 0)] != editor.low:
                if info.name not in casts:
                    text = info.name.removesuffix(":0")
                    casts[info.name] = f"{editor.add_cast(text, f'{node}/cast_to_low', signatures.FLOAT, editor.low)}:0"
                info.name = casts[info.name]
            info.dtype = editor.low
