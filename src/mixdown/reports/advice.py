"""Tensor Core advice: sizes that make 16-bit matrix products and convolutions slow. Start with `advise`.

The rule is that of the documentation: batch sizes, input and output sizes and numbers of channels should be powers of
two below 256, and multiples of 8 above. A host finds these sizes with `matmul`, `einsum` and `convolution`.
"""

from collections.abc import Iterable, Sequence
from math import prod
from typing import NamedTuple

from mixdown.reports.model import Advice
from mixdown.rules.layer_names import is_backward, layers

BATCH = "batch size"
BORDER = 256
STEP = 8

Size = int | None
"""None if it is not known."""

Shape = tuple[Size, ...] | None
Dimensions = tuple[tuple[str, Size], ...]
"""Sizes by name."""


class Product(NamedTuple):
    """One matrix product or convolution."""

    op: int  # its index in the graph
    dimensions: Dimensions


def is_good(size: int) -> bool:
    """Whether Tensor Cores are fast with a dimension of this size."""
    return size % STEP == 0 if size > BORDER else size.bit_count() == 1


def better_size(dimension: str, size: int) -> int:
    """The size to choose instead: of a batch the nearest good one, and the larger of two that are equally near.

    Of a layer it is the next larger one: its sizes are what it can express.
    """
    step = STEP if size > BORDER else 1 << (size.bit_length() - 1)
    below, above = size // step * step, -(-size // step) * step
    return below if dimension == BATCH and size - below < above - size else above


def advise(names: Sequence[str], products: Iterable[Product]) -> tuple[Advice, ...]:
    """Advice per layer and dimension, by the names of all ops of a graph and by its 16-bit products.

    A gradient has the dimensions of its layer: it is listed with the layer's ops.
    """
    owners = layers(names)
    found: dict[tuple[str, str, int], list[str]] = {}
    for product in sorted(products, key=lambda product: (is_backward(names[product.op]), product.op)):
        name = names[product.op]
        layer = owners[product.op] or name
        for dimension, size in product.dimensions:
            if size is None or size <= 0 or is_good(size):
                continue
            known = [key for key in found if (key[0], key[2]) == (layer, size)] if is_backward(name) else []
            for key in known or [(layer, dimension, size)]:
                found.setdefault(key, []).append(name)
    return tuple(
        Advice(layer, dimension, size, better_size(dimension, size), tuple(dict.fromkeys(ops)))
        for (layer, dimension, size), ops in found.items()
    )


def matmul(left: Shape, right: Shape, *, flip_left: bool = False, flip_right: bool = False) -> Dimensions:
    """The dimensions of a matrix product, of which either side may be transposed."""
    rows, inner = _last_two(left, flip=flip_left)
    inner_too, columns = _last_two(right, flip=flip_right)
    return _product(rows, inner if inner is not None else inner_too, columns)


def einsum(equation: str, left: Shape, right: Shape) -> Dimensions:
    """The dimensions of the matrix product that an einsum of two operands amounts to; none if it has another form."""
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    first, comma, second = inputs.partition(",")
    if not (arrow and comma) or "." in equation or "," in second or left is None or right is None:
        return ()
    if (len(first), len(second)) != (len(left), len(right)):
        return ()
    sizes = dict([*zip(first, left, strict=True), *zip(second, right, strict=True)])
    rows = [sizes[label] for label in first if label in output and label not in second]
    inner = [sizes[label] for label in first if label in second and label not in output]
    columns = [sizes[label] for label in second if label in output and label not in first]
    return _product(_times(rows), _times(inner), _times(columns))


def convolution(image: Shape, kernel: Shape, result: Shape, *, channels_first: bool = False) -> Dimensions:
    """The dimensions of a convolution or of one of its gradients, from those of the three shapes that are known."""
    image, kernel, result = (shape if shape and len(shape) > 2 else None for shape in (image, kernel, result))  # noqa: PLR2004 - batch, space, channels
    batch = next((shape[0] for shape in (image, result) if shape), None)
    axis = 1 if channels_first else -1
    incoming = image[axis] if image else (kernel[-2] if kernel else None)
    outgoing = kernel[-1] if kernel else (result[axis] if result else None)
    return ((BATCH, batch), ("input channels", incoming), ("output channels", outgoing))


def _product(rows: Size, inner: Size, columns: Size) -> Dimensions:
    return ((BATCH, rows), ("input size", inner), ("output size", columns))


def _last_two(shape: Shape, *, flip: bool) -> tuple[Size, Size]:
    if shape is None or len(shape) < 2:  # noqa: PLR2004 - a matrix has two
        return None, None
    return (shape[-1], shape[-2]) if flip else (shape[-2], shape[-1])


def _times(sizes: list[Size]) -> Size:
    known = [size for size in sizes if size is not None]
    return prod(known) if len(known) == len(sizes) else None
