"""Inputs whose number of elements is the number of dimensions of a value. Start with `maybe_long`, then `limited`.

TensorFlow makes a shape of as many unknown dimensions as such a vector has elements, even if they are billions. So
inputs that could be long are first replaced by placeholders; those that turn out to be short are put back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from copy import deepcopy
from typing import Any, NamedTuple

from tensorflow.core.framework import node_def_pb2

from mixdown.rules.rule_set import kinds
from mixdown.tensorflow.protos import signatures
from mixdown.tensorflow.protos.wiring import Source, WiredBody
from mixdown.tensorflow.shapes.safe_folding import MOST_DIMENSIONS, Bound, unrunnable

SHAPE_INPUTS = {
    (0,): kinds("""
        Conv2DBackpropInput Conv3DBackpropInputV2 DepthwiseConv2dNativeBackpropInput Empty EmptyTensorList Fill
        TensorListReserve
    """),
    (1,): kinds("""
        BroadcastTo ConjugateTranspose Conv2DBackpropFilter Conv3DBackpropFilterV2 DepthwiseConv2dNativeBackpropFilter
        MirrorPad Pad PadV2 Reshape SparseToDense TensorListConcatV2 TensorListFromTensor TensorListStack Tile
        Transpose UnravelIndex
    """),
    (2,): kinds("ScatterNd TensorListGather TensorListGetItem TensorListScatter TensorListScatterV2"),
    (1, 2): kinds("Slice SparseReshape"),
    (1, 2, 3): kinds("StridedSlice"),
    (0, 1, 2, 3): kinds("StridedSliceGrad"),
}
"""The positions of inputs that are shapes, or as long as one, and the kinds that have them there."""

POSITIONS = {kind: positions for positions, members in SHAPE_INPUTS.items() for kind in members}
RANDOM = ("Random", "StatelessRandom", "StatelessTruncated", "TruncatedNormal", "ParameterizedTruncated")
SEEDS = ("KeyCounter", "KeyCounterAlg", "Alg")
"""Kinds whose names begin with RANDOM have a shape as first input, except those whose names end with SEEDS."""

UNKNOWN = "mixdown/unknown_"
"""The names of the placeholders begin with this."""


class ShapeInput(NamedTuple):
    """One input of one node."""

    node: int
    position: int


def maybe_long(wired: WiredBody, within: Iterable[int], bounds: Mapping[int, Bound]) -> dict[ShapeInput, Source]:
    """The inputs of some nodes that are shapes and that could be long, with what they read."""
    found = {}
    for index in within:
        kind, sources = wired.body.nodes[index].op, wired.inputs[index]
        first = (0,) if kind.startswith(RANDOM) and not kind.endswith(SEEDS) else ()
        for position in POSITIONS.get(kind, first):
            if position < len(sources) and not _is_short(wired, sources[position][0], bounds):
                found[ShapeInput(index, position)] = sources[position]
    return found


def _is_short(wired: WiredBody, maker: int, bounds: Mapping[int, Bound]) -> bool:
    if maker in bounds:
        return bounds[maker].elements <= MOST_DIMENSIONS
    kind = wired.body.nodes[maker].op if maker >= 0 else ""
    return kind == "VariableShape" or (kind == "Pack" and len(wired.inputs[maker]) <= MOST_DIMENSIONS)


def limited(
    wired: WiredBody, within: Iterable[int], forbidden: Collection[int], long: Collection[ShapeInput]
) -> list[Any]:
    """Copy nodes of a body such that TensorFlow can infer their shapes safely.

    Args:
        wired: the body.
        within: the nodes.
        forbidden: those that TensorFlow must not run.
        long: inputs that read a placeholder instead.

    Returns:
        The nodes, in order, followed by the placeholders.
    """
    positions: dict[int, list[int]] = defaultdict(list)
    for node, position in long:
        positions[node].append(position)
    placeholders: dict[int, Any] = {}
    nodes = []
    for index in within:
        node = unrunnable(wired.body.nodes[index]) if index in forbidden else wired.body.nodes[index]
        nodes.append(_redirected(node, positions[index], placeholders) if index in positions else node)
    return [*nodes, *(placeholders[dtype] for dtype in sorted(placeholders))]


def _redirected(node: Any, positions: Iterable[int], placeholders: dict[int, Any]) -> Any:
    """A copy of a node that reads placeholders at some positions; adds those that are missing, by dtype."""
    kind = signatures.kind_of(node.op)
    assert kind is not None  # noqa: S101 - TensorFlow registers every kind that has shape inputs
    types = signatures.input_types(kind, node)
    copy = deepcopy(node)
    for position in positions:
        dtype = types[position]
        if dtype not in placeholders:
            placeholders[dtype] = node_def_pb2.NodeDef(name=f"{UNKNOWN}{dtype}", op="Placeholder")
            placeholders[dtype].attr["dtype"].type = dtype
            placeholders[dtype].attr["shape"].shape.unknown_rank = True
        copy.input[position] = placeholders[dtype].name
    return copy
