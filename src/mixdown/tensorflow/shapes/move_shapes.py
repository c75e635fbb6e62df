"""The shapes that ops make which only move values, as TensorFlow's own shape functions infer them: `FUNCTIONS`.

As in `shape_functions`, None stands for what TensorFlow has to be asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from mixdown.tensorflow.protos.wiring import Source
from mixdown.tensorflow.shapes.known_values import Known, value_of_port, whole
from mixdown.tensorflow.shapes.shape_functions import Dims, Function, Shapes, folded, input_shapes, merged, sizes


def _reshape(known: Known, _node: Any, sources: Sequence[Source]) -> Shapes:
    shape, wanted = known.shape(sources[0]), known.value(sources[1])
    if shape is None or wanted is None or any(size is not None and size < -1 for size in wanted):
        return None
    out = tuple(None if size == -1 else size for size in wanted)
    if None in shape or out.count(None) > 1:
        return (out,)
    count, rest = prod(size or 0 for size in shape), prod(1 if size is None else size for size in out)
    if None not in out:
        return (out,) if count == rest else None
    return (tuple(count // rest if size is None else size for size in out),) if rest and not count % rest else None


def _transpose(known: Known, _node: Any, sources: Sequence[Source]) -> Shapes:
    shape, order = known.shape(sources[0]), whole(known.value(sources[1]))
    if shape is None or order is None or sorted(order) != list(range(len(shape))):
        return None
    return (tuple(shape[axis] for axis in order),)


def _squeeze(known: Known, node: Any, sources: Sequence[Source]) -> Shapes:
    shape, named = known.shape(sources[0]), node.attr["squeeze_dims"].list.i if "squeeze_dims" in node.attr else ()
    if shape is None or (not named and None in shape) or not all(-len(shape) <= axis < len(shape) for axis in named):
        return None
    gone = {axis % len(shape) for axis in named or [axis for axis, size in enumerate(shape) if size == 1]}
    if any(shape[axis] not in (1, None) for axis in gone):
        return None
    return (tuple(size for axis, size in enumerate(shape) if axis not in gone),)


def _place(known: Known, source: Source, rank: int) -> int | None:
    """The axis that an input names, counted from the front."""
    axis = whole(known.value(source))
    return axis[0] % rank if axis is not None and len(axis) == 1 and -rank <= axis[0] < rank else None


def _expand_dims(known: Known, _node: Any, sources: Sequence[Source]) -> Shapes:
    shape = known.shape(sources[0])
    place = None if shape is None else _place(known, sources[1], len(shape) + 1)
    return None if shape is None or place is None else ((*shape[:place], 1, *shape[place:]),)


def _concat(known: Known, _node: Any, sources: Sequence[Source]) -> Shapes:
    shapes = input_shapes(known, sources[:-1])
    place = _place(known, sources[-1], len(shapes[0])) if shapes else None
    if shapes is None or place is None:
        return None
    rest: Dims | None = shapes[0]
    for shape in shapes[1:]:
        rest = None if rest is None else merged(rest, (*shape[:place], rest[place], *shape[place + 1 :]))
    along = whole(tuple(shape[place] for shape in shapes if len(shape) == len(shapes[0])))
    return None if rest is None else ((*rest[:place], None if along is None else sum(along), *rest[place + 1 :]),)


def _pack(known: Known, node: Any, sources: Sequence[Source]) -> Shapes:
    shapes = folded(merged)(known, node, sources)
    if shapes is None or shapes[0] is None:
        return None
    shape, axis = shapes[0], node.attr["axis"].i if "axis" in node.attr else 0
    place = axis if axis >= 0 else axis + len(shape) + 1
    return ((*shape[:place], len(sources), *shape[place:]),) if 0 <= place <= len(shape) else None


def _unpack(known: Known, node: Any, sources: Sequence[Source]) -> Shapes:
    shape, axis = known.shape(sources[0]), node.attr["axis"].i if "axis" in node.attr else 0
    if shape is None or not -len(shape) <= axis < len(shape) or shape[axis] != node.attr["num"].i:
        return None
    place = axis % len(shape)
    return ((*shape[:place], *shape[place + 1 :]),) * (shape[axis] or 0)


def _tile(known: Known, _node: Any, sources: Sequence[Source]) -> Shapes:
    shape, times = known.shape(sources[0]), known.value(sources[1])
    if shape is None or times is None or len(times) != len(shape) or any(t is not None and t < 0 for t in times):
        return None
    both = (whole(pair) for pair in zip(shape, times, strict=True))
    return (tuple(None if pair is None else prod(pair) for pair in both),)


def _pad(known: Known, _node: Any, sources: Sequence[Source]) -> Shapes:
    shape, around = known.shape(sources[0]), whole(known.value(sources[1]))
    if shape is None or around is None or len(around) != 2 * len(shape) or min(around, default=0) < 0:
        return None
    both = [before + after for before, after in zip(around[::2], around[1::2], strict=True)]
    return (tuple(None if size is None else size + more for size, more in zip(shape, both, strict=True)),)


def _slice(known: Known, _node: Any, sources: Sequence[Source]) -> Shapes:
    shape, begin, taken = known.shape(sources[0]), known.value(sources[1]), known.value(sources[2])
    if shape is None or begin is None or taken is None or not len(shape) == len(begin) == len(taken):
        return None
    out: list[int | None] = []
    for size, start, count in zip(shape, begin, taken, strict=True):
        if count is None or start is None or start < 0 or count < -1:
            return None
        rest = None if size is None else size - start
        if rest is not None and max(count, 0) > rest:
            return None
        out.append(rest if count == -1 else count)
    return (tuple(out),)


def _strided_slice(known: Known, node: Any, sources: Sequence[Source]) -> Shapes:
    """The shape of a part of a vector of integers, which other ops make a shape of."""
    shape, part = known.shape(sources[0]), value_of_port(known, node, sources, 0)
    if shape is None or len(shape) != 1 or part is None:
        return None
    return ((),) if node.attr["shrink_axis_mask"].i else ((len(part),),)


def _gather(known: Known, node: Any, sources: Sequence[Source]) -> Shapes:
    shapes = input_shapes(known, sources, 2)
    place = None if shapes is None else _place(known, sources[2], len(shapes[0]))
    if shapes is None or place is None or ("batch_dims" in node.attr and node.attr["batch_dims"].i):
        return None
    return ((*shapes[0][:place], *shapes[1], *shapes[0][place + 1 :]),)


def _broadcast_to(known: Known, _node: Any, sources: Sequence[Source]) -> Shapes:
    shape, wanted = known.shape(sources[0]), sizes(known.value(sources[1]))
    if shape is None or wanted is None or wanted[0] is None or len(wanted[0]) < len(shape):
        return None
    fits = zip(shape, wanted[0][len(wanted[0]) - len(shape) :], strict=True)
    return wanted if all(one in (other, 1) for one, other in fits) else None


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
