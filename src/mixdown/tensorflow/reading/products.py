"""The matrix products and convolutions of a graph, with the dimensions that matter to Tensor Cores: `products`."""

from typing import Any

from mixdown.core.graph import Shape
from mixdown.reports.advice import Dimensions, Product, convolution, einsum, matmul
from mixdown.tensorflow.reading.arithmetic import CONVOLUTIONS, PRODUCTS, input_shapes, tensors_by_use
from mixdown.tensorflow.reading.read import Reading

JUDGED = PRODUCTS.keys() | {kind for kind in CONVOLUTIONS if "Depthwise" not in kind}  # which do not use Tensor Cores


def products(reading: Reading) -> list[Product]:
    """Every matrix product and convolution, by op."""
    tensors, out = tensors_by_use(reading.uses), []
    for index, (op, origin) in enumerate(zip(reading.graph.ops, reading.origins, strict=True)):
        if op.kind in JUDGED:
            node = reading.bodies[origin.body].nodes[origin.node]
            inputs = input_shapes(node, origin, tensors, reading.graph.shapes)
            out.append(Product(index, _dimensions(node, inputs)))
    return out


def _dimensions(node: Any, inputs: list[Shape]) -> Dimensions:
    if node.op == "Einsum":
        sides = inputs if len(inputs) == 2 else [None, None]  # noqa: PLR2004 - the two sides of a product
        return einsum(node.attr["equation"].s.decode(errors="replace"), *sides)
    if node.op in PRODUCTS:
        left, right = (name in node.attr and node.attr[name].b for name in PRODUCTS[node.op])
        return matmul(*inputs[:2], flip_left=left, flip_right=right)
    parts = [None if place is None else inputs[place] for place in CONVOLUTIONS[node.op]]
    first = "data_format" in node.attr and node.attr["data_format"].s.startswith(b"NC")
    return convolution(*parts, channels_first=first)
