"""The matrix products and convolutions of a graph, with the sizes that matter to Tensor Cores. See `products`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mixdown.reports.advice import Product, convolution, einsum, matmul
from mixdown.tensorflow.reading.builder import Use

if TYPE_CHECKING:
    from mixdown.reports.advice import Dimensions, Shape
    from mixdown.tensorflow.reading.read import Reading

FLIPS = {
    "MatMul": ("transpose_a", "transpose_b"),
    "BatchMatMul": ("adj_x", "adj_y"),
    "BatchMatMulV2": ("adj_x", "adj_y"),
    "BatchMatMulV3": ("adj_x", "adj_y"),
}
"""Matrix products, and the attributes that say which side is transposed."""

CONVOLUTIONS: dict[str, tuple[int | None, int | None, int | None]] = {
    "Conv2D": (0, 1, None),
    "Conv2DBackpropFilter": (0, None, 2),
    "Conv2DBackpropInput": (None, 1, 2),
    "Conv3D": (0, 1, None),
    "Conv3DBackpropFilterV2": (0, None, 2),
    "Conv3DBackpropInputV2": (None, 1, 2),
}
"""Convolutions and their gradients, and which input is the image, the kernel and (a gradient of) the result."""


def products(reading: Reading) -> list[Product]:
    """Every matrix product and convolution."""
    out = []
    shapes: dict[Use, Shape] | None = None  # not worked out if nobody asks
    for index, (op, origin) in enumerate(zip(reading.graph.ops, reading.origins, strict=True)):
        if op.kind in FLIPS or op.kind in CONVOLUTIONS or op.kind == "Einsum":
            shapes = _shapes_of_uses(reading) if shapes is None else shapes
            node = reading.bodies[origin.body].nodes[origin.node]
            inputs = [shapes.get(Use(origin.body, origin.node, place)) for place in range(len(node.input))]
            out.append(Product(index, _dimensions(node, inputs)))
    return out


def _shapes_of_uses(reading: Reading) -> dict[Use, Shape]:
    """The shape of what every input reads."""
    return {use: shape for shape, uses in zip(reading.graph.shapes, reading.uses, strict=True) for use in uses}


def _dimensions(node: Any, inputs: list[Shape]) -> Dimensions:
    if node.op in FLIPS:
        flips = [name in node.attr and node.attr[name].b for name in FLIPS[node.op]]
        return matmul(*inputs[:2], flip_left=flips[0], flip_right=flips[1])
    if node.op == "Einsum":
        sides = inputs if len(inputs) == 2 else [None, None]  # noqa: PLR2004 - the two sides of a product
        return einsum(node.attr["equation"].s.decode(errors="replace"), *sides)
    parts = [None if place is None else inputs[place] for place in CONVOLUTIONS[node.op]]
    first = "data_format" in node.attr and node.attr["data_format"].s.startswith(b"NC")
    return convolution(*parts, channels_first=first)
