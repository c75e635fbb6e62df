"""Which dimensions of matrix products and convolutions matter to Tensor Cores, from the shapes of their operands."""

from __future__ import annotations

from math import prod

Size = int | None
Shape = tuple[Size, ...] | None
"""None, also for one dimension, where it is not known."""

Dimensions = tuple[tuple[str, Size], ...]


def matmul(left: Shape, right: Shape, *, flip_left: bool = False, flip_right: bool = False) -> Dimensions:
    """Those of a matrix product, of which either side may be transposed."""
    rows, inner = _last_two(left, flip=flip_left)
    inner_too, columns = _last_two(right, flip=flip_right)
    return _product(rows, inner if inner is not None else inner_too, columns)


def einsum(equation: str, left: Shape, right: Shape) -> Dimensions:
    """Those of the matrix product that an einsum of two operands comes down to, none if it is not of that form."""
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
    """Those of a convolution or of one of its gradients: give what of the three is known."""
    image, kernel, result = (shape if shape and len(shape) > 2 else None for shape in (image, kernel, result))  # noqa: PLR2004 - batch, space, channels
    batch = next((shape[0] for shape in (image, result) if shape), None)
    axis = 1 if channels_first else -1
    incoming = image[axis] if image else (kernel[-2] if kernel else None)
    outgoing = kernel[-1] if kernel else (result[axis] if result else None)
    return (("batch size", batch), ("input channels", incoming), ("output channels", outgoing))


def _product(rows: Size, inner: Size, columns: Size) -> Dimensions:
    return (("batch size", rows), ("input size", inner), ("output size", columns))


def _last_two(shape: Shape, *, flip: bool) -> tuple[Size, Size]:
    if shape is None or len(shape) < 2:  # noqa: PLR2004 - a matrix has two
        return None, None
    return (shape[-1], shape[-2]) if flip else (shape[-2], shape[-1])


def _times(sizes: list[Size]) -> Size:
    known = [size for size in sizes if size is not None]
    return prod(known) if len(known) == len(sizes) else None
