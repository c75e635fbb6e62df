"""The integers that shapes are made of: those in constants, and what is computed from them and from shapes.

Start with `integers`. They are flat, and None where one is not known. As TensorFlow does, only ops that move integers
keep those that are known beside others that are not.
"""

from collections.abc import Callable, Sequence
from math import prod
from operator import add, floordiv, mod, mul, sub

import numpy as np
from tensorflow.core.framework import types_pb2

from mixdown.tensorflow.shapes.shape_functions import Dims, View, need, whole

MOST = 256
"""The largest number of elements of a value that is looked at: shapes, axes and paddings are smaller."""

FORMATS = {types_pb2.DT_INT32: ("<i4", "int_val"), types_pb2.DT_INT64: ("<i8", "int64_val")}
LARGEST = 2**62
"""Integers beyond this are left to TensorFlow, whose arithmetic overflows."""

Rule = Callable[[View], Dims]


def integers(view: View) -> Dims:
    """The integers in an output of a node."""
    need(view.node.op in VALUES)
    return VALUES[view.node.op](view)


def _constant(view: View) -> Dims:
    tensor = view.attribute("value").tensor
    sizes = [dim.size for dim in tensor.tensor_shape.dim]
    count = prod(sizes)
    need(tensor.dtype in FORMATS and len(sizes) <= 2 and min(sizes, default=0) >= 0 and count <= MOST)  # noqa: PLR2004 - paddings are pairs
    layout, field = FORMATS[tensor.dtype]
    if tensor.tensor_content:
        need(len(tensor.tensor_content) == count * np.dtype(layout).itemsize)
        return tuple(np.frombuffer(tensor.tensor_content, layout).tolist())
    listed = list(getattr(tensor, field)) or [0] * count
    need(len(listed) <= count)
    return (*listed, *listed[-1:] * (count - len(listed)))  # the last one is repeated


def _cast(view: View) -> Dims:
    need(view.attribute("DstT").type in FORMATS)
    return view.value(0)


def _pack(view: View) -> Dims:
    need(all(view.shape_of(source) == () for source in view.sources))
    parts = [view.value(position) for position in range(len(view.sources))]
    need(all(parts))
    return tuple(part[0] for part in parts)


def _concat(view: View) -> Dims:
    joined = range(len(view.sources) - 1)
    need(all(view.rank(position) == 1 for position in joined))
    return tuple(each for position in joined for each in view.value(position))


def _gather(view: View) -> Dims:
    values, places = view.value(0), view.whole(1)
    need(view.rank(0) == 1 and view.rank(1) <= 1 and all(0 <= place < len(values) for place in places))
    return (None,) * len(places) if None in values else tuple(values[place] for place in places)


def _strided_slice(view: View) -> Dims:
    values, ends = view.value(0), [view.whole(position) for position in (1, 2, 3)]
    need(view.rank(0) == 1 and all(len(end) == 1 for end in ends))
    need(not view.attribute("ellipsis_mask").i and not view.attribute("new_axis_mask").i)
    (begin,), (end,), (step,) = ends
    need(step)
    if view.attribute("shrink_axis_mask").i:
        need(-len(values) <= begin < len(values))
        return values[begin : begin + 1 or None]
    first = None if view.attribute("begin_mask").i else begin
    last = None if view.attribute("end_mask").i else end
    return values[first:last:step]


def _slice(view: View) -> Dims:
    shape, values, begin, taken = whole(view.shape(0)), view.whole(0), view.whole(1), view.whole(2)
    need(len(shape) == len(begin) == len(taken) and min((*begin, *taken), default=0) >= 0)
    parts = tuple(slice(start, start + count) for start, count in zip(begin, taken, strict=True))
    return tuple(np.array(values, np.int64).reshape(shape)[parts].ravel().tolist())


def _prod(view: View) -> Dims:
    values = view.value(0)
    need(not view.attribute("keep_dims").b and view.rank(0) == 1 and view.value(1) in ((0,), (-1,)))
    return (None,) if None in values else _checked([prod(whole(values))])


def _arithmetic(compute: Callable[[int, int], int], *, divides: bool = False) -> Rule:
    def rule(view: View) -> Dims:
        left, right = view.value(0), view.value(1)
        need(not (divides and 0 in right) and view.rank(0) <= 1 and view.rank(1) <= 1)
        if len(left) != len(right):
            left, right = left * (len(right) if len(left) == 1 else 1), right * (len(left) if len(right) == 1 else 1)
        need(len(left) == len(right))
        if None in left or None in right:
            return (None,) * len(left)
        return _checked(list(map(compute, whole(left), whole(right))))

    return rule


def _checked(values: Sequence[int]) -> Dims:
    need(all(-LARGEST < value < LARGEST for value in values))
    return tuple(values)


def _invert(view: View) -> Dims:
    order = view.whole(0)
    need(sorted(order) == list(range(len(order))))
    return tuple(map(order.index, range(len(order))))


def summed_axes(one: Dims, other: Dims) -> tuple[Dims, Dims]:
    """The axes over which the gradients of two operands of these shapes are summed."""
    need(None not in (*one, *other))
    if one == other:
        return (), ()
    rank = max(len(one), len(other))
    left, right = ((1,) * (rank - len(value)) + value for value in (one, other))
    need(all(a == b or 1 in (a, b) for a, b in zip(left, right, strict=True)))
    sides = (tuple(axis for axis, size in enumerate(side) if size == 1) for side in (left, right))
    return next(sides), next(sides)


def _offset(view: View) -> Dims:
    """Where one of several values that are joined begins."""
    axis, *shapes = (view.whole(position) for position in range(view.port + 2))
    rank = len(shapes[0])
    need(len(axis) == 1 and -rank <= axis[0] < rank and all(len(shape) == rank for shape in shapes))
    before = sum(shape[axis[0]] for shape in shapes[:-1])
    return tuple(before if place == axis[0] % rank else 0 for place in range(rank))


VALUES: dict[str, Rule] = {
    **dict.fromkeys(("ExpandDims", "Identity", "Reshape", "Squeeze"), lambda view: view.value(0)),
    **dict.fromkeys(("Shape", "ShapeN"), lambda view: view.shape(view.port)),
    "AddV2": _arithmetic(add),
    "BroadcastGradientArgs": lambda view: summed_axes(view.value(0), view.value(1))[view.port],
    "Cast": _cast,
    "ConcatOffset": _offset,
    "ConcatV2": _concat,
    "Const": _constant,
    "FloorDiv": _arithmetic(floordiv, divides=True),
    "FloorMod": _arithmetic(mod, divides=True),
    "GatherV2": _gather,
    "InvertPermutation": _invert,
    "Maximum": _arithmetic(max),
    "Mul": _arithmetic(mul),
    "Pack": _pack,
    "Prod": _prod,
    "Slice": _slice,
    "StridedSlice": _strided_slice,
    "Sub": _arithmetic(sub),
}
"""Kind -> what the integers in its outputs are."""
