"""Values that are shapes: how long they are is how many dimensions something gets. Start with `doubtful`, then `tamed`.

TensorFlow makes a shape of as many unknown dimensions as the vector has elements, even if they are billions. So
vectors that could be long are replaced by unknown ones at first; those that turn out to be short are put back.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from tensorflow.core.framework import node_def_pb2

from mixdown.tensorflow.protos import signatures
from mixdown.tensorflow.shapes.safe_folding import MOST_DIMENSIONS, unrunnable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from mixdown.tensorflow.protos.wiring import Source
    from mixdown.tensorflow.reading.builder import Chapter
    from mixdown.tensorflow.shapes.safe_folding import Bound

POSITIONS = {
    "BroadcastTo": (1,),
    "ConjugateTranspose": (1,),
    "Conv2DBackpropFilter": (1,),
    "Conv2DBackpropInput": (0,),
    "Conv3DBackpropFilterV2": (1,),
    "Conv3DBackpropInputV2": (0,),
    "DepthwiseConv2dNativeBackpropFilter": (1,),
    "DepthwiseConv2dNativeBackpropInput": (0,),
    "Empty": (0,),
    "EmptyTensorList": (0,),
    "Fill": (0,),
    "MirrorPad": (1,),
    "Pad": (1,),
    "PadV2": (1,),
    "Reshape": (1,),
    "ScatterNd": (2,),
    "Slice": (1, 2),
    "SparseReshape": (1, 2),
    "SparseToDense": (1,),
    "StridedSlice": (1, 2, 3),
    "StridedSliceGrad": (0, 1, 2, 3),
    "TensorListConcatV2": (1,),
    "TensorListFromTensor": (1,),
    "TensorListGather": (2,),
    "TensorListGetItem": (2,),
    "TensorListReserve": (0,),
    "TensorListScatter": (2,),
    "TensorListScatterV2": (2,),
    "TensorListStack": (1,),
    "Tile": (1,),
    "Transpose": (1,),
    "UnravelIndex": (1,),
}
"""Kinds, and which of their inputs are shapes, or as long as one."""

RANDOM = ("Random", "StatelessRandom", "StatelessTruncated", "TruncatedNormal", "ParameterizedTruncated")
SEEDS = ("KeyCounter", "KeyCounterAlg", "Alg")
"""How the kinds begin whose first input is a shape, and how those of them end whose first input is a seed."""


UNKNOWN = "mixdown/unknown_"
"""How the names begin of the nodes that inputs read which are long."""


class Use(NamedTuple):
    """One input of one node."""

    node: int
    position: int


def doubtful(chapter: Chapter, within: Iterable[int], bounds: Mapping[int, Bound]) -> dict[Use, Source]:
    """The inputs of some nodes that are shapes, and may be long for all that is known, with what they read."""
    found = {}
    for index in within:
        for position in _positions(chapter.body.nodes[index].op):
            sources = chapter.wiring.inputs[index]
            if position < len(sources) and not _is_short(chapter, sources[position][0], bounds):
                found[Use(index, position)] = sources[position]
    return found


def _positions(kind: str) -> tuple[int, ...]:
    return POSITIONS.get(kind) or ((0,) if kind.startswith(RANDOM) and not kind.endswith(SEEDS) else ())


def _is_short(chapter: Chapter, maker: int, bounds: Mapping[int, Bound]) -> bool:
    if maker in bounds:
        return bounds[maker].elements <= MOST_DIMENSIONS
    kind = chapter.body.nodes[maker].op if maker >= 0 else ""
    return kind == "VariableShape" or (kind == "Pack" and len(chapter.wiring.inputs[maker]) <= MOST_DIMENSIONS)


def tamed(chapter: Chapter, within: Iterable[int], forbidden: Collection[int], long: Collection[Use]) -> list[Any]:
    """Some nodes of a body, of which some are made unrunnable, with something unknown for inputs that are long.

    Behind them stands what the unknown inputs read.
    """
    positions: dict[int, list[int]] = defaultdict(list)
    for use in long:
        positions[use.node].append(use.position)
    nodes = chapter.body.nodes
    tame = ((index, unrunnable(nodes[index]) if index in forbidden else nodes[index]) for index in within)
    types = {_input_types(nodes[use.node])[use.position] for use in long}
    return [
        *(_cut(node, positions[index]) if index in positions else node for index, node in tame),
        *map(_unknown, sorted(types)),
    ]


def _cut(node: Any, positions: Iterable[int]) -> Any:
    """A copy of a node that reads something unknown at these positions."""
    copy = node_def_pb2.NodeDef()
    copy.CopyFrom(node)
    types = _input_types(node)
    for position in positions:
        copy.input[position] = _unknown(types[position]).name
    return copy


def _unknown(dtype: int) -> Any:
    """The node that stands for a vector of which nothing is known."""
    node = node_def_pb2.NodeDef(name=f"{UNKNOWN}{dtype}", op="Placeholder")
    node.attr["dtype"].type = dtype
    node.attr["shape"].shape.unknown_rank = True
    return node


def _input_types(node: Any) -> list[int]:
    kind = signatures.kind_of(node.op)
    assert kind is not None  # noqa: S101 - all kinds in the table are TensorFlow's own
    known = dict(zip((name for name, _ in kind.readers), kind.values(node), strict=True))
    return [dtype for argument in kind.definition.input_arg for _, dtype in signatures.ports(argument, known)]
