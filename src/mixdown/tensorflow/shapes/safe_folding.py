"""What keeps TensorFlow from running or allocating anything large while it infers shapes. See `folding`, `maybe_long`.

Where a shape depends on a value, as that of a Reshape does, TensorFlow runs the ops that make the value, if they read
nothing but constants. In a graph from anywhere these may read a file, or make a value that fills the memory. So only
arithmetic on shapes may be run, whose results are known to be small; every other op is made unrunnable (`limited`).

TensorFlow also makes a shape of as many unknown dimensions as an input that is a shape has elements, even if they are
billions. So such inputs that could be long are first replaced by placeholders; those that turn out to be short are put
back.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from math import prod
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import node_def_pb2, types_pb2

from mixdown.rules.rule_set import kinds
from mixdown.tensorflow.protos import signatures
from mixdown.tensorflow.protos.bodies import attribute
from mixdown.tensorflow.protos.wiring import Source, WiredBody

MOST = 4096
"""The largest number of elements of a value that may be computed: shapes and parts of shapes are smaller."""

MOST_DIMENSIONS = 254  # of a tensor, by TensorFlow's own rule
KERNEL, NO_SUCH_KERNEL = "_kernel", b"none_while_shapes_are_inferred"
"""The attribute by which a node asks for a certain kernel, and a kernel that does not exist."""

INTEGERS = {types_pb2.DT_INT32, types_pb2.DT_INT64}


class Bound(NamedTuple):
    """How large a value can be: its number of elements at most, and whether it has at most one dimension."""

    elements: int
    flat: bool = True


# Outputs depend on the shapes of the inputs alone.
SHAPES = kinds("Rank Shape ShapeN Size")
# Integer arithmetic and comparisons whose output is as large as the largest input. Not the rules' element-wise kinds:
# those are for floats, and these must be cheap and free of side effects on input from anywhere.
ELEMENTWISE = kinds("""
    Abs Add AddV2 BroadcastArgs BroadcastGradientArgs Cast ConcatOffset Div Equal FloorDiv FloorMod Greater
    GreaterEqual Identity InvertPermutation Less LessEqual LogicalAnd LogicalNot LogicalOr Maximum Minimum Mod Mul Neg
    NotEqual OnesLike PreventGradient RealDiv Select SelectV2 StopGradient Sub TruncateDiv ZerosLike
""")
# The output is no larger than the first input (the last one of Split).
NO_LARGER = kinds("All Any ExpandDims Max Mean Min Prod Reshape ReverseV2 Slice Split Squeeze StridedSlice Sum Unpack")
JOINING = kinds("Concat ConcatV2 Pack")


def folding(wired: WiredBody, within: Iterable[int]) -> tuple[set[int], dict[int, Bound]]:
    """Some nodes that may not be run, and those that may, for they compute something small from constants and shapes.

    Of the former those are left out that depend on another one, and so cannot be run either.
    """
    forbidden, bounds = set[int](), dict[int, Bound]()
    ops = {index: wired.body.nodes[index].op for index in within}
    waiting = {index: len(wired.inputs[index]) for index in ops}
    readers: dict[int, list[int]] = defaultdict(list)  # per node; one that reads it twice is listed twice
    for index in ops:
        for maker, _ in wired.inputs[index]:
            readers[maker].append(index)
    queue = [index for index, op in ops.items() if op == "Const" or op in SHAPES]
    for index in queue:
        bound = _bound(wired, index, bounds)
        if bound is None or bound.elements > MOST:
            forbidden.add(index)
            continue
        bounds[index] = bound
        for reader in readers[index]:
            waiting[reader] -= 1
            if not waiting[reader] and ops[reader] not in SHAPES:
                queue.append(reader)
    return forbidden, bounds


def _bound(wired: WiredBody, index: int, bounds: dict[int, Bound]) -> Bound | None:
    """How large the outputs of a node can be, None if it may not be run."""
    node = wired.body.nodes[index]
    if node.op in SHAPES:
        return Bound(1 if node.op in ("Rank", "Size") else MOST_DIMENSIONS)
    if node.op == "Const":
        return _constant(node)
    sources = wired.inputs[index]
    return _computed(node, [wired.body.nodes[maker] for maker, _ in sources], [bounds[maker] for maker, _ in sources])


def _computed(node: Any, makers: Sequence[Any], inputs: Sequence[Bound]) -> Bound | None:
    flat = all(each.flat for each in inputs)
    if node.op in ELEMENTWISE:
        return Bound(max(each.elements for each in inputs)) if flat or len(inputs) == 1 else None
    if node.op in JOINING:
        joined_flat = all(each.elements == 1 for each in inputs) if node.op == "Pack" else flat
        return Bound(sum(each.elements for each in inputs), flat=joined_flat)
    if node.op in NO_LARGER:
        return _no_larger(node, inputs)
    if node.op in ("Gather", "GatherV2"):
        return inputs[1] if inputs[0].flat else None
    if node.op == "Range":
        return _range(makers)
    values = _numbers(makers[0]) if node.op == "Fill" else None
    return None if values is None else Bound(prod(values), flat=len(values) <= 1)


def _unrunnable(node: Any) -> Any:
    """A copy of a node with the same shapes that TensorFlow cannot run."""
    if node.op == "Const":  # its value would be read, whatever its size
        copy = node_def_pb2.NodeDef(name=node.name, op="Placeholder")
        copy.attr["dtype"].CopyFrom(attribute(node, "dtype"))
        copy.attr["shape"].shape.CopyFrom(attribute(node, "value").tensor.tensor_shape)
    else:
        copy = deepcopy(node)
        copy.attr[KERNEL].s = NO_SUCH_KERNEL
    return copy


def _constant(node: Any) -> Bound | None:
    sizes = [dim.size for dim in attribute(node, "value").tensor.tensor_shape.dim]
    return Bound(prod(sizes), flat=len(sizes) <= 1) if all(size >= 0 for size in sizes) else None


def _no_larger(node: Any, inputs: Sequence[Bound]) -> Bound:
    first = inputs[-1] if node.op == "Split" else inputs[0]
    if node.op == "StridedSlice" and first.flat and attribute(node, "shrink_axis_mask").i:
        return Bound(1)
    grows = node.op in ("ExpandDims", "Reshape") or attribute(node, "new_axis_mask").i
    return Bound(first.elements, flat=first.elements == 1) if grows else first


def _range(makers: Sequence[Any]) -> Bound | None:
    """The bound of a Range between small constants, or up to a rank."""
    ends = [[MOST_DIMENSIONS] if maker.op == "Rank" else _numbers(maker) for maker in makers]
    small = all(end is not None and len(end) == 1 and abs(end[0]) < MOST // 2 for end in ends)
    return Bound(MOST) if small and ends[2] != [0] else None


def _numbers(node: Any) -> list[int] | None:
    """The integers in a constant, None if it holds anything else."""
    tensor, bound = attribute(node, "value").tensor, _constant(node)
    if node.op != "Const" or tensor.dtype not in INTEGERS or bound is None or bound.elements > MOST:
        return None
    try:
        return [int(value) for value in np.ravel(tf.make_ndarray(tensor))]
    except (TypeError, ValueError):  # its shape asks for more or fewer values
        return None


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


ShapeInput = tuple[int, int]
"""A node, and the position of one of its inputs."""


def maybe_long(wired: WiredBody, within: Iterable[int], bounds: Mapping[int, Bound]) -> dict[ShapeInput, Source]:
    """The inputs of some nodes that are shapes and that could be long, with what they read."""
    found = {}
    for index in within:
        kind, sources = wired.body.nodes[index].op, wired.inputs[index]
        first = (0,) if kind.startswith(RANDOM) and not kind.endswith(SEEDS) else ()
        for position in POSITIONS.get(kind, first):
            if position < len(sources) and not _is_short(wired, sources[position][0], bounds):
                found[index, position] = sources[position]
    return found


def _is_short(wired: WiredBody, maker: int, bounds: Mapping[int, Bound]) -> bool:
    if maker in bounds:
        return bounds[maker].elements <= MOST_DIMENSIONS
    kind = wired.body.nodes[maker].op if maker >= 0 else ""
    return kind == "VariableShape" or (kind == "Pack" and len(wired.inputs[maker]) <= MOST_DIMENSIONS)


def limited(
    wired: WiredBody, within: Iterable[int], forbidden: Collection[int], long: Collection[ShapeInput]
) -> list[Any]:
    """Copies of some nodes of a body whose shapes TensorFlow can infer safely, in order, followed by placeholders.

    It cannot run those that are forbidden. Inputs that are long read a placeholder instead.
    """
    positions: dict[int, list[int]] = defaultdict(list)
    for node, position in long:
        positions[node].append(position)
    placeholders: dict[int, Any] = {}
    nodes = []
    for index in within:
        node = _unrunnable(wired.body.nodes[index]) if index in forbidden else wired.body.nodes[index]
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
