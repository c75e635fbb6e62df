"""The ports of nodes: their dtypes, and the texts by which a function's nodes name them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tensorflow.core.framework import types_pb2

from mixdown.tensorflow.protos.signatures import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FLOATS = frozenset({types_pb2.DT_HALF, types_pb2.DT_BFLOAT16, types_pb2.DT_FLOAT, types_pb2.DT_DOUBLE})
OPAQUE = frozenset({types_pb2.DT_RESOURCE, types_pb2.DT_VARIANT})


class Port(NamedTuple):
    """An output or an input of a node."""

    text: str  # how nodes of the same function name the tensor
    dtype: int


def outputs(node: Any, library: Mapping[str, Any]) -> list[Port]:
    """The outputs of a node of a function, in order."""
    definition = _definition(node, library)
    out: list[Port] = []
    for argument in definition.output_arg:
        out.extend(Port(f"{node.name}:{argument.name}:{index}", t) for index, t in enumerate(_types(argument, node)))
    return out


def inputs(node: Any, library: Mapping[str, Any]) -> list[Port]:
    """The data inputs of a node of a function, in order."""
    definition = _definition(node, library)
    types = (dtype for argument in definition.input_arg for dtype in _types(argument, node))
    texts = (text for text in node.input if not text.startswith("^"))
    return [Port(text, dtype) for text, dtype in zip(texts, types, strict=True)]


def is_stateful(node: Any, library: Mapping[str, Any]) -> bool:
    """Whether a node does something beyond its outputs: it runs even if nobody reads them."""
    return bool(_definition(node, library).is_stateful)


def maker(text: str) -> str:
    """The node, or the argument, that an input text leads to."""
    return text.removeprefix("^").partition(":")[0]


def _definition(node: Any, library: Mapping[str, Any]) -> Any:
    kind = kind_of(node.op)
    return library[node.op].signature if kind is None else kind.definition


def _types(argument: Any, node: Any) -> Iterator[int]:
    if argument.type_list_attr:
        yield from node.attr[argument.type_list_attr].list.type
        return
    dtype = node.attr[argument.type_attr].type if argument.type_attr else argument.type
    for _ in range(node.attr[argument.number_attr].i if argument.number_attr else 1):
        yield dtype
