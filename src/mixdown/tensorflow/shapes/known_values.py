"""The integers that shapes are made of: those in constants, and what is computed from them and from shapes.

Start with `value_of_port`. A value is a flat tuple of integers, None where one is not known. As TensorFlow
does, only ops that move integers keep those that are known beside others that are not. What is returned is None where
TensorFlow has to be asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Protocol

import numpy as np
from tensorflow.core.framework import types_pb2

from mixdown.core.graph import Shape
from mixdown.tensorflow.protos.wiring import Source

Value = tuple[int | None, ...]

MOST = 256
"""The largest number of elements of a value that is looked at: shapes, axes and paddings are smaller."""

FORMATS = {types_pb2.DT_INT32: ("<i4", "int_val"), types_pb2.DT_INT64: ("<i8", "int64_val")}
LARGEST = 2**62
"""Integers beyond this are left to TensorFlow, whose arithmetic overflows."""


class Known(Protocol):
    """What is known of the values of a body."""

    def shape(self, source: Source) -> Shape:
        """The shape of an output."""

    def value(self, source: Source) -> Value | None:
        """The integers in an output."""


Rule = Callable[[Known, Any, Sequence[Source]], Value | None]


def constant(node: Any) -> Value | None:
    """The integers in a Const node."""
    tensor = node.attr["value"].tensor
    if tensor.dtype not in FORMATS:
        return None
    sizes = [dim.size for dim in tensor.tensor_shape.dim]
    count = prod(sizes)
    if len(sizes) > 2 or min(sizes, default=0) < 0 or count > MOST:  # noqa: PLR2004 - paddings are pairs
        return None
    layout, field = FORMATS[tensor.dtype]
    if tensor.tensor_content:
        whole = len(tensor.tensor_content) == count * np.dtype(layout).itemsize
        return tuple(np.frombuffer(tensor.tensor_content, layout).tolist()) if whole else None
    listed = list(getattr(tensor, field)) or [0] * count
    return (*listed, *listed[-1:] * (count - len(listed))) if len(listed) <= count else None  # the last one is repeated


def _constant(_known: Known, node: Any, _sources: Sequence[Source]) -> Value | None:
    return constant(node)


def _shape(known: Known, _node: Any, sources: Sequence[Source]) -> Value | None:
    return known.shape(sources[0])


def _same(known: Known, _node: Any, sources: Sequence[Source]) -> Value | None:
    return known.value(sources[0])


def _cast(known: Known, node: Any, sources: Sequence[Source]) -> Value | None:
    return known.value(sources[0]) if node.attr["DstT"].type in FORMATS else None


def _pack(known: Known, _node: Any, sources: Sequence[Source]) -> Value | None:
    parts = [known.value(source) for source in sources]
    scalars = all(known.shape(source) == () for source in sources)
    return tuple(part[0] for part in parts if part) if scalars and all(parts) else None


def _concat(known: Known, _node: Any, sources: Sequence[Source]) -> Value | None:
    flat = all(len(known.shape(source) or ()) == 1 for source in sources[:-1])
    parts = [known.value(source) for source in sources[:-1]]
    return sum((part or () for part in parts), ()) if flat and None not in parts else None


def _gather(known: Known, _node: Any, sources: Sequence[Source]) -> Value | None:
    values, places = known.value(sources[0]), known.value(sources[1])
    if values is None or places is None or len(known.shape(sources[0]) or ()) != 1:
        return None
    if len(known.shape(sources[1]) or ()) > 1 or not all(p is not None and 0 <= p < len(values) for p in places):
        return None
    return (None,) * len(places) if None in values else tuple(values[place or 0] for place in places)


def _strided_slice(known: Known, node: Any, sources: Sequence[Source]) -> Value | None:
    values, ends = known.value(sources[0]), [known.value(source) for source in sources[1:]]
    masks = {name: node.attr[name].i for name in MASKS if name in node.attr}
    if values is None or len(known.shape(sources[0]) or ()) != 1 or any(end is None or len(end) != 1 for end in ends):
        return None
    if masks.get("ellipsis_mask") or masks.get("new_axis_mask"):
        return None
    (begin,), (end,), (step,) = (end or () for end in ends)
    if begin is None or end is None or not step:
        return None
    if masks.get("shrink_axis_mask"):
        return values[begin : begin + 1 or None] if -len(values) <= begin < len(values) else None
    first, last = (None if masks.get("begin_mask") else begin), (None if masks.get("end_mask") else end)
    return values[first:last:step]


MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


def _slice(known: Known, _node: Any, sources: Sequence[Source]) -> Value | None:
    shape, (values, begin, taken) = whole(known.shape(sources[0])), map(whole, map(known.value, sources))
    if shape is None or values is None or begin is None or taken is None or min((*begin, *taken), default=0) < 0:
        return None
    if not len(shape) == len(begin) == len(taken):
        return None
    parts = tuple(slice(start, start + count) for start, count in zip(begin, taken, strict=True))
    return tuple(np.array(values, np.int64).reshape(shape)[parts].ravel().tolist())


def whole(value: Value | None) -> list[int] | None:
    """The integers, if all are known."""
    return None if value is None or None in value else [each for each in value if each is not None]


def _prod(known: Known, node: Any, sources: Sequence[Source]) -> Value | None:
    values = known.value(sources[0])
    plain = "keep_dims" not in node.attr or not node.attr["keep_dims"].b
    flat = len(known.shape(sources[0]) or ()) == 1
    if values is None or not plain or not flat or known.value(sources[1]) not in ((0,), (-1,)):
        return None
    return (None,) if None in values else _checked([prod(value or 0 for value in values)])


def _arithmetic(compute: Callable[[int, int], int], *, divides: bool = False) -> Rule:
    def rule(known: Known, _node: Any, sources: Sequence[Source]) -> Value | None:
        left, right = known.value(sources[0]), known.value(sources[1])
        if left is None or right is None or (divides and 0 in right):
            return None
        if any(len(known.shape(source) or ()) > 1 for source in sources):
            return None
        if len(left) != len(right):
            left, right = left * (len(right) if len(left) == 1 else 1), right * (len(left) if len(right) == 1 else 1)
        if len(left) != len(right):
            return None
        if None in left or None in right:
            return (None,) * len(left)
        return _checked([compute(one or 0, other or 0) for one, other in zip(left, right, strict=True)])

    return rule


def _checked(values: Sequence[int]) -> Value | None:
    return tuple(values) if all(-LARGEST < value < LARGEST for value in values) else None


def _invert(known: Known, _node: Any, sources: Sequence[Source]) -> Value | None:
    order = known.value(sources[0])
    if order is None or sorted(place for place in order if place is not None) != list(range(len(order))):
        return None
    return tuple(order.index(place) for place in range(len(order)))


def summed_axes(one: Value, other: Value) -> tuple[Value, Value] | None:
    """The axes over which the gradients of two operands of these shapes are summed."""
    if None in one or None in other:
        return None
    if one == other:
        return (), ()
    rank = max(len(one), len(other))
    left, right = ((1,) * (rank - len(value)) + value for value in (one, other))
    if any(a != b and 1 not in (a, b) for a, b in zip(left, right, strict=True)):
        return None
    sides = (tuple(axis for axis, size in enumerate(side) if size == 1) for side in (left, right))
    return next(sides), next(sides)


def value_of_port(known: Known, node: Any, sources: Sequence[Source], port: int) -> Value | None:
    """The integers in an output of a node."""
    if node.op == "ShapeN":
        return known.shape(sources[port])
    if node.op == "BroadcastGradientArgs":
        one, other = (known.value(source) for source in sources)
        axes = None if one is None or other is None else summed_axes(one, other)
        return None if axes is None else axes[port]
    if node.op == "ConcatOffset":
        return _offset(known, sources, port)
    rule = VALUES.get(node.op)
    return None if rule is None else rule(known, node, sources)


def _offset(known: Known, sources: Sequence[Source], port: int) -> Value | None:
    """Where one of several values that are joined begins."""
    axis, *shapes = (whole(known.value(source)) for source in sources[: port + 2])
    if axis is None or len(axis) != 1 or None in shapes:
        return None
    rank = len(shapes[0] or ())
    if not -rank <= axis[0] < rank or any(len(shape or ()) != rank for shape in shapes):
        return None
    before = sum((shape or [])[axis[0]] for shape in shapes[:-1])
    return tuple(before if place == axis[0] % rank else 0 for place in range(rank))


VALUES: dict[str, Rule] = {
    "AddV2": _arithmetic(lambda one, other: one + other),
    "Cast": _cast,
    "ConcatV2": _concat,
    "Const": _constant,
    "ExpandDims": _same,
    "FloorDiv": _arithmetic(lambda one, other: one // other, divides=True),
    "FloorMod": _arithmetic(lambda one, other: one % other, divides=True),
    "GatherV2": _gather,
    "Identity": _same,
    "InvertPermutation": _invert,
    "Maximum": _arithmetic(max),
    "Mul": _arithmetic(lambda one, other: one * other),
    "Pack": _pack,
    "Prod": _prod,
    "Reshape": _same,
    "Shape": _shape,
    "Slice": _slice,
    "Squeeze": _same,
    "StridedSlice": _strided_slice,
    "Sub": _arithmetic(lambda one, other: one - other),
}
"""Kind -> what the integers in its only output are."""
