"""The arithmetic of matrix products and convolutions: how much it is, `Work`, and whether it sums, `Contractions`."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from math import isqrt, prod
from typing import Any

from mixdown.core.graph import Shape
from mixdown.core.pricing.moved_bytes import GUESS
from mixdown.rules.rule_set import kinds
from mixdown.tensorflow.protos.bodies import Body, attribute
from mixdown.tensorflow.reading.builder import Draft, Origin, Use

PRODUCTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(kinds("BatchMatMul BatchMatMulV2 BatchMatMulV3"), ("adj_x", "adj_y")),
    "Einsum": (),
    "MatMul": ("transpose_a", "transpose_b"),
}
"""Matrix products, and the attributes that say which side is transposed."""

CONVOLUTIONS: dict[str, tuple[int | None, int | None, int | None]] = {
    **dict.fromkeys(kinds("Conv2D Conv3D DepthwiseConv2dNative"), (0, 1, None)),
    **dict.fromkeys(
        kinds("Conv2DBackpropFilter Conv3DBackpropFilterV2 DepthwiseConv2dNativeBackpropFilter"), (0, None, 2)
    ),
    **dict.fromkeys(
        kinds("Conv2DBackpropInput Conv3DBackpropInputV2 DepthwiseConv2dNativeBackpropInput"), (None, 1, 2)
    ),
}
"""Convolutions and their gradients: which input is the image, the kernel and the result, or the gradient by one of
them; None for the one that is the output."""


class PerOp(Sequence[Any]):
    """Something per op of a Graph that follows from shapes, found out when asked for."""

    def __init__(self, draft: Draft, tree: Sequence[Body], shapes: Sequence[Shape]) -> None:
        self._draft, self._tree, self._shapes = draft, tree, shapes
        self._answer = cache(self._find)

    def __len__(self) -> int:
        return len(self._draft.ops)

    def __getitem__(self, op: Any) -> Any:
        return self._answer(op)

    @abstractmethod
    def _find(self, op: int) -> Any:
        """The answer for an op."""

    def _inputs(self, op: int) -> list[Shape]:
        origin = self._draft.origins[op]
        return input_shapes(self._node(op), origin, self._read, self._shapes)

    def _node(self, op: int) -> Any:
        origin = self._draft.origins[op]
        return self._tree[origin.body].nodes[origin.node]

    @cached_property
    def _read(self) -> dict[Use, int]:
        return tensors_by_use(self._draft.uses)


class Work(PerOp):
    """Per op of a Graph, its multiplications and additions; 0 where it is no product, or not known."""

    def _find(self, op: int) -> int:
        kind, origin = self._draft.ops[op].kind, self._draft.origins[op]
        if kind not in PRODUCTS and kind not in CONVOLUTIONS:
            return 0
        inputs = self._inputs(op)
        made = self._made.get((origin.body, origin.node))
        output = None if made is None else self._shapes[made]
        if kind in PRODUCTS:
            return product(inputs[:2], output)
        _, kernel, result = (output if place is None else inputs[place] for place in CONVOLUTIONS[kind])
        return convolution(kernel, result, depthwise="Depthwise" in kind)

    @cached_property
    def _made(self) -> dict[tuple[int, int], int]:
        return {(place.body, place.node): index for index, place in enumerate(self._draft.places)}


class Contractions(PerOp):
    """Per op of a Graph, whether it sums over something: False for matrix products that do not.

    The product of two single numbers, which is how people try out what a rewrite does, counts as a matrix product.
    """

    def _find(self, op: int) -> bool:
        kind = self._draft.ops[op].kind
        if kind not in PRODUCTS:
            return True
        node, inputs = self._node(op), self._inputs(op)
        if all(shape is not None and set(shape) == {1} for shape in inputs):
            return True
        if kind == "Einsum":
            return contracts(node.attr["equation"].s.decode(errors="replace"), inputs)
        left, flipped = inputs[0], PRODUCTS[kind][0]
        axis = -2 if attribute(node, flipped).b else -1
        return left is None or len(left) < -axis or left[axis] != 1


def contracts(equation: str, shapes: Sequence[Shape]) -> bool:
    """Whether an einsum sums over a label that both operands share; a size that is not known counts as more than 1."""
    inputs, _, output = equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if len(terms) != len(shapes) or len(terms) != 2:  # noqa: PLR2004 - the two sides of a product
        return len(terms) != 1
    if "..." in terms[0] and "..." in terms[1] and "..." not in output:
        return True
    shared = set(terms[0]) & set(terms[1]) - set(output) - {"."}
    return any(_size(label, terms[0], shapes[0]) != 1 for label in shared)


def _size(label: str, term: str, shape: Shape) -> int | None:
    """The size of a label, counted from the end it is nearer to: dots stand for any number of dimensions."""
    before, dots, after = term.partition("...")
    place = before.find(label) if label in before else after.find(label) - len(after)
    if shape is None or (dots == "" and len(shape) != len(term)) or len(shape) < len(before) + len(after):
        return None
    return shape[place]


def tensors_by_use(uses: Sequence[Sequence[Use]]) -> dict[Use, int]:
    """The tensor that every input reads, given the inputs that read every tensor."""
    return {use: tensor for tensor, its in enumerate(uses) for use in its}


def input_shapes(node: Any, origin: Origin, tensors: Mapping[Use, int], shapes: Sequence[Shape]) -> list[Shape]:
    """The shapes of what a node reads, None where it is not float32."""
    read = [tensors.get(Use(origin.body, origin.node, place)) for place in range(len(node.input))]
    return [None if tensor is None else shapes[tensor] for tensor in read]


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
