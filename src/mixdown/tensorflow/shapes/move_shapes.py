"""The shapes that ops make which only move values, as TensorFlow's own shape functions infer them: `FUNCTIONS`."""

from functools import reduce
from math import prod

from mixdown.tensorflow.shapes.known_values import integers
from mixdown.tensorflow.shapes.shape_functions import Function, Shapes, View, merged, need, whole


def _reshape(view: View) -> Shapes:
    shape, wanted = view.shape(0), view.value(1)
    need(all(size is None or size >= -1 for size in wanted))
    out = tuple(None if size == -1 else size for size in wanted)
    if None in shape or out.count(None) > 1:
        return (out,)
    count, rest = prod(whole(shape)), prod(1 if size is None else size for size in out)
    need(rest and not count % rest if None in out else count == rest)
    return (tuple(count // rest if size is None else size for size in out),)


def _transpose(view: View) -> Shapes:
    shape, order = view.shape(0), view.whole(1)
    need(sorted(order) == list(range(len(shape))))
    return (tuple(shape[axis] for axis in order),)


def _squeeze(view: View) -> Shapes:
    shape, named = view.shape(0), view.attribute("squeeze_dims").list.i
    need((named or None not in shape) and all(-len(shape) <= axis < len(shape) for axis in named))
    gone = {axis % len(shape) for axis in named or [axis for axis, size in enumerate(shape) if size == 1]}
    need(all(shape[axis] in (1, None) for axis in gone))
    return (tuple(size for axis, size in enumerate(shape) if axis not in gone),)


def _place(view: View, position: int, rank: int) -> int:
    """The axis that an input names, counted from the front."""
    axis = view.whole(position)
    need(len(axis) == 1 and -rank <= axis[0] < rank)
    return axis[0] % rank


def _expand_dims(view: View) -> Shapes:
    shape = view.shape(0)
    place = _place(view, 1, len(shape) + 1)
    return ((*shape[:place], 1, *shape[place:]),)


def _concat(view: View) -> Shapes:
    shapes = view.shapes(-1)
    place = _place(view, -1, len(shapes[0]))
    need(len(set(map(len, shapes))) == 1)
    along = tuple(shape[place] for shape in shapes)
    rest = reduce(merged, ((*shape[:place], None, *shape[place + 1 :]) for shape in shapes))
    return ((*rest[:place], None if None in along else sum(whole(along)), *rest[place + 1 :]),)


def _pack(view: View) -> Shapes:
    shape, axis = reduce(merged, view.shapes()), view.attribute("axis").i
    place = axis if axis >= 0 else axis + len(shape) + 1
    need(0 <= place <= len(shape))
    return ((*shape[:place], len(view.sources), *shape[place:]),)


def _unpack(view: View) -> Shapes:
    shape, axis, count = view.shape(0), view.attribute("axis").i, view.attribute("num").i
    need(-len(shape) <= axis < len(shape) and shape[axis] == count)
    place = axis % len(shape)
    return ((*shape[:place], *shape[place + 1 :]),) * count


def _tile(view: View) -> Shapes:
    shape, times = view.shape(0), view.sizes(1)
    need(len(times) == len(shape))
    return (tuple(None if None in pair else prod(whole(pair)) for pair in zip(shape, times, strict=True)),)


def _pad(view: View) -> Shapes:
    shape, around = view.shape(0), view.whole(1)
    need(len(around) == 2 * len(shape) and min(around, default=0) >= 0)
    both = [before + after for before, after in zip(around[::2], around[1::2], strict=True)]
    return (tuple(None if size is None else size + more for size, more in zip(shape, both, strict=True)),)


def _slice(view: View) -> Shapes:
    shape, begin, taken = view.shape(0), view.whole(1), view.whole(2)
    need(len(shape) == len(begin) == len(taken))
    out: list[int | None] = []
    for size, start, count in zip(shape, begin, taken, strict=True):
        rest = None if size is None else size - start
        need(start >= 0 and count >= -1 and (rest is None or max(count, 0) <= rest))
        out.append(rest if count == -1 else count)
    return (tuple(out),)


def _strided_slice(view: View) -> Shapes:
    """The shape of a part of a vector of integers, which other ops make a shape of."""
    need(view.rank(0) == 1)
    part = integers(view)
    return ((),) if view.attribute("shrink_axis_mask").i else ((len(part),),)


def _gather(view: View) -> Shapes:
    shape, places = view.shapes(2)
    place = _place(view, 2, len(shape))
    need(not view.attribute("batch_dims").i)
    return ((*shape[:place], *places, *shape[place + 1 :]),)


def _broadcast_to(view: View) -> Shapes:
    shape, wanted = view.shape(0), view.sizes(1)
    need(len(wanted) >= len(shape))
    need(all(one in (other, 1) for one, other in zip(shape, wanted[len(wanted) - len(shape) :], strict=True)))
    return (wanted,)


FUNCTIONS: dict[str, Function] = {
    "BroadcastTo": _broadcast_to,
    "ConcatV2": _concat,
    "ExpandDims": _expand_dims,
    "GatherV2": _gather,
    "Pack": _pack,
    "Pad": _pad,
    "PadV2": _pad,
    "Reshape": _reshape,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "StridedSlice": _strided_slice,
    "Tile": _tile,
    "Transpose": _transpose,
    "Unpack": _unpack,
}
"""Kind -> the shapes of its outputs."""
