"""How much arithmetic the matrix products and convolutions of a graph take, from the shapes of their values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import isqrt, prod
from typing import TYPE_CHECKING, Any

from mixdown.core.pricing.moved_bytes import GUESS
from mixdown.tensorflow.reading.builder import Use

if TYPE_CHECKING:
    from mixdown.core.graph import Shape
    from mixdown.tensorflow.protos.bodies import Body
    from mixdown.tensorflow.reading.builder import Draft

PRODUCTS = frozenset({"BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum", "MatMul"})

OUTPUT = -1
CONVOLUTIONS = {
    "Conv2D": (1, OUTPUT),
    "Conv2DBackpropFilter": (OUTPUT, 2),
    "Conv2DBackpropInput": (1, 2),
    "Conv3D": (1, OUTPUT),
    "Conv3DBackpropFilterV2": (OUTPUT, 2),
    "Conv3DBackpropInputV2": (1, 2),
    "DepthwiseConv2dNative": (1, OUTPUT),
    "DepthwiseConv2dNativeBackpropFilter": (OUTPUT, 2),
    "DepthwiseConv2dNativeBackpropInput": (1, 2),
}
"""Convolutions and their gradients: which input (or the output) is the kernel, and which the result or its gradient."""


class Work(Sequence[int]):
    """Per op of a Graph, its multiplications and additions; 0 where it is no product, or not known."""

    def __init__(self, draft: Draft, tree: Sequence[Body], shapes: Sequence[Shape]) -> None:
        self._draft, self._tree, self._shapes = draft, tree, shapes
        self._known: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._draft.ops)

    def __getitem__(self, op: Any) -> Any:
        if op not in self._known:
            self._known[op] = self._operations(op)
        return self._known[op]

    def _operations(self, op: int) -> int:
        kind, origin = self._draft.ops[op].kind, self._draft.origins[op]
        if kind not in PRODUCTS and kind not in CONVOLUTIONS:
            return 0
        inputs = range(len(self._tree[origin.body].nodes[origin.node].input))
        shapes = [self._shape(self._read.get(Use(origin.body, origin.node, place))) for place in inputs]
        output = self._shape(self._made.get((origin.body, origin.node)))
        if kind in PRODUCTS:
            return product(shapes[:2], output)
        return convolution(*((*shapes, output)[place] for place in CONVOLUTIONS[kind]), depthwise="Depthwise" in kind)

    def _shape(self, tensor: int | None) -> Shape:
        return None if tensor is None else self._shapes[tensor]

    @cached_property
    def _read(self) -> dict[Use, int]:
        return {use: index for index, uses in enumerate(self._draft.uses) for use in uses}

    @cached_property
    def _made(self) -> dict[tuple[int, int], int]:
        return {(place.body, place.node): index for index, place in enumerate(self._draft.places)}


def product(sides: Sequence[Shape], output: Shape) -> int:
    """The operations of a matrix product: rows x inner x columns is the root of the three sizes multiplied."""
    if output is None or any(side is None for side in sides):
        return 0
    batch = prod(_sizes(output[:-2]))
    sizes = [prod(_sizes(shape)) for shape in (*sides, output) if shape is not None]
    return 2 * isqrt(prod(sizes) // max(batch, 1))


def convolution(kernel: Shape, result: Shape, *, depthwise: bool) -> int:
    """The operations of a convolution or of a gradient of one: every element of the result meets one filter."""
    if kernel is None or result is None:
        return 0
    filters = prod(_sizes(kernel[-2:] if depthwise else kernel[-1:]))
    return 2 * prod(_sizes(result)) * prod(_sizes(kernel)) // max(filters, 1)


def _sizes(shape: Sequence[int | None]) -> list[int]:
    return [GUESS if size is None else size for size in shape]
