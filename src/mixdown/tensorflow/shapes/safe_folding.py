"""What TensorFlow must not compute while it infers shapes. Start with `folding`, then `unrunnable`.

Where a shape depends on a value, as that of a Reshape does, TensorFlow runs the ops that make the value, if they read
nothing but constants. In a graph from anywhere these may read a file, or make a value that fills the memory. So only
arithmetic on shapes may be run, of which the result is known to be small; every other op is made unrunnable.
"""

from __future__ import annotations

from collections import defaultdict
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2, node_def_pb2, types_pb2

from mixdown.rules.rule_set import kinds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from mixdown.tensorflow.reading.builder import Chapter

MOST = 4096
"""Elements: no shape, and no part of one, is larger."""

MOST_DIMENSIONS = 254  # of a tensor, by TensorFlow's own rule
KERNEL, NONE_SUCH = "_kernel", b"none_while_shapes_are_inferred"
"""The attribute by which a node asks for a certain kernel, and one that does not exist."""

INTEGERS = {types_pb2.DT_INT32, types_pb2.DT_INT64}


class Bound(NamedTuple):
    """How large a value can be: its elements at most, and whether it has one dimension at most."""

    elements: int
    flat: bool = True


SHAPES = kinds("Rank Shape ShapeN Size")
ELEMENTWISE = kinds("""
    Abs Add AddV2 BroadcastArgs BroadcastGradientArgs Cast ConcatOffset Div Equal FloorDiv FloorMod Greater
    GreaterEqual Identity InvertPermutation Less LessEqual LogicalAnd LogicalNot LogicalOr Maximum Minimum Mod Mul Neg
    NotEqual OnesLike PreventGradient RealDiv Select SelectV2 StopGradient Sub TruncateDiv ZerosLike
""")
NO_LARGER = kinds("All Any ExpandDims Max Mean Min Prod Reshape ReverseV2 Slice Split Squeeze StridedSlice Sum Unpack")
"""What they make is no larger than what they read first (Split reads it last)."""

JOINING = kinds("Concat ConcatV2 Pack")


class Folding(NamedTuple):
    """What of a body may be run while shapes are inferred."""

    forbidden: set[int]  # nodes that may not; what reads one of them cannot be run then, so it is not among them
    bounds: dict[int, Bound]  # nodes that may, and how large their outputs are


def folding(chapter: Chapter, within: Iterable[int]) -> Folding:
    """Which of some nodes of a body may be run: those that compute something small from constants and shapes."""
    found: set[int] = set()
    bounds: dict[int, Bound] = {}
    nodes = chapter.body.nodes
    kinds = {index: nodes[index].op for index in within}
    waiting, readers = _open_inputs(chapter, kinds)
    queue = [index for index, kind in kinds.items() if kind == "Const" or kind in SHAPES]
    for index in queue:
        bound = _bound(chapter, index, bounds)
        if bound is None or bound.elements > MOST:
            found.add(index)
            continue
        bounds[index] = bound
        for reader in readers.get(index, ()):
            waiting[reader] -= 1
            if not waiting[reader] and kinds[reader] not in SHAPES:
                queue.append(reader)
    return Folding(found, bounds)


def _open_inputs(chapter: Chapter, within: Iterable[int]) -> tuple[dict[int, int], dict[int, list[int]]]:
    """Per node, how many inputs it has; and who reads it, once for every input."""
    readers: dict[int, list[int]] = defaultdict(list)
    waiting = {}
    for index in within:
        sources = chapter.wiring.inputs[index]
        waiting[index] = len(sources)
        for maker, _ in sources:
            readers[maker].append(index)
    return waiting, readers


def _bound(chapter: Chapter, index: int, bounds: dict[int, Bound]) -> Bound | None:
    """How large the outputs of a node can be, None if it may not be run."""
    node = chapter.body.nodes[index]
    if node.op in SHAPES:
        return Bound(1 if node.op in ("Rank", "Size") else MOST_DIMENSIONS)
    if node.op == "Const":
        return _constant(node)
    makers = [maker for maker, _ in chapter.wiring.inputs[index]]
    inputs = [bounds[maker] for maker in makers]
    if node.op in ELEMENTWISE:
        flat = all(each.flat for each in inputs)
        return Bound(max(each.elements for each in inputs)) if flat or len(inputs) == 1 else None
    if node.op in JOINING:
        return Bound(sum(each.elements for each in inputs), flat=_joined_flat(node.op, inputs))
    if node.op in NO_LARGER:
        return _no_larger(node, inputs)
    special = SPECIAL.get(node.op)
    return special([chapter.body.nodes[maker] for maker in makers], inputs) if special else None


def unrunnable(node: Any) -> Any:
    """A copy of a node with the same shapes that TensorFlow cannot run."""
    copy = node_def_pb2.NodeDef()
    if node.op == "Const":  # it would be read, however large it says it is
        copy.name, copy.op = node.name, "Placeholder"
        copy.attr["dtype"].CopyFrom(_attribute(node, "dtype"))
        copy.attr["shape"].shape.CopyFrom(_attribute(node, "value").tensor.tensor_shape)
    else:
        copy.CopyFrom(node)
        copy.attr[KERNEL].s = NONE_SUCH
    return copy


def _attribute(node: Any, name: str) -> Any:
    """An attribute, empty if the node has none; asked for in brackets, it would be added."""
    return node.attr.get(name) or attr_value_pb2.AttrValue()


def _constant(node: Any) -> Bound | None:
    sizes = [dim.size for dim in _attribute(node, "value").tensor.tensor_shape.dim]
    return Bound(prod(sizes), flat=len(sizes) <= 1) if all(size >= 0 for size in sizes) else None


def _joined_flat(kind: str, inputs: Sequence[Bound]) -> bool:
    return all(each.elements == 1 if kind == "Pack" else each.flat for each in inputs)


def _no_larger(node: Any, inputs: Sequence[Bound]) -> Bound:
    first = inputs[-1] if node.op == "Split" else inputs[0]
    if node.op == "StridedSlice" and first.flat and _attribute(node, "shrink_axis_mask").i:
        return Bound(1)
    grows = node.op in ("ExpandDims", "Reshape") or _attribute(node, "new_axis_mask").i
    return Bound(first.elements, flat=first.elements == 1) if grows else first


def _gather(_: Sequence[Any], inputs: Sequence[Bound]) -> Bound | None:
    return inputs[1] if inputs[0].flat else None


def _range(makers: Sequence[Any], _: Sequence[Bound]) -> Bound | None:
    """A Range between small numbers that are written down, or up to a rank."""
    ends = [MOST_DIMENSIONS if maker.op == "Rank" else _number(maker) for maker in makers]
    small = all(end is not None and abs(end) < MOST // 2 for end in ends)
    return Bound(MOST) if small and ends[2] else None


def _fill(makers: Sequence[Any], _: Sequence[Bound]) -> Bound | None:
    values = _numbers(makers[0])
    return None if values is None else Bound(prod(values), flat=len(values) <= 1)


SPECIAL: dict[str, Callable[[Sequence[Any], Sequence[Bound]], Bound | None]] = {
    "Fill": _fill,
    "Gather": _gather,
    "GatherV2": _gather,
    "Range": _range,
}


def _number(node: Any) -> int | None:
    values = _numbers(node)
    return values[0] if values is not None and len(values) == 1 else None


def _numbers(node: Any) -> list[int] | None:
    """The integers in a constant, None if it holds anything else."""
    tensor, bound = _attribute(node, "value").tensor, _constant(node)
    if node.op != "Const" or tensor.dtype not in INTEGERS or bound is None or bound.elements > MOST:
        return None
    try:
        return [int(value) for value in np.ravel(tf.make_ndarray(tensor))]
    except (TypeError, ValueError):  # more or fewer values than its shape asks for
        return None
