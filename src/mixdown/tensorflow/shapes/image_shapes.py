"""The shapes that ops on images make, as TensorFlow's own shape functions infer them: `FUNCTIONS`.

As in `shape_functions`, None stands for what TensorFlow has to be asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mixdown.tensorflow.protos.wiring import Source
from mixdown.tensorflow.shapes.known_values import Known
from mixdown.tensorflow.shapes.shape_functions import (
    Dims,
    Function,
    Shapes,
    by_value,
    first_shape,
    input_shapes,
    merged,
    sizes,
)

IMAGE = 4  # dimensions


def channel_axis(node: Any, rank: int) -> int:
    """The axis of the channels of an image or of another value, by the node's data format."""
    first = "data_format" in node.attr and node.attr["data_format"].s.startswith(b"NC")
    return 1 if first else rank - 1


def _bias_add(known: Known, node: Any, sources: Sequence[Source]) -> Shapes:
    shapes = input_shapes(known, sources)
    if shapes is None or len(shapes[0]) < 2 or len(shapes[1]) != 1:  # noqa: PLR2004 - a batch and channels
        return None
    axis = channel_axis(node, len(shapes[0]))
    channels = merged((shapes[0][axis],), shapes[1])
    return None if channels is None else ((*shapes[0][:axis], *channels, *shapes[0][axis + 1 :]),)


def _bias_add_grad(known: Known, node: Any, sources: Sequence[Source]) -> Shapes:
    shape = known.shape(sources[0])
    return None if shape is None or len(shape) < 2 else ((shape[channel_axis(node, len(shape))],),)  # noqa: PLR2004


def _window(node: Any, shape: Dims, window: Sequence[int | None]) -> list[int | None] | None:
    """The height and width that a window sliding over an image leaves; None if it cannot be said."""
    axes = (2, 3) if channel_axis(node, IMAGE) == 1 else (1, 2)
    padding, strides = node.attr["padding"].s, list(node.attr["strides"].list.i)
    rates = list(node.attr["dilations"].list.i) if "dilations" in node.attr else []
    if (
        padding not in (b"SAME", b"VALID")
        or len(strides) != IMAGE
        or len(rates or strides) != IMAGE
        or min(strides) < 1
    ):
        return None
    out: list[int | None] = []
    for axis, size in zip(axes, window, strict=True):
        given = shape[axis]
        if given is None:
            out.append(None)
        elif padding == b"SAME":
            out.append(-(-given // strides[axis]))
        elif size is None:
            out.append(None)
        else:
            covered = (size - 1) * (rates[axis] if rates else 1) + 1
            out.append((given - covered) // strides[axis] + 1)
    return out if all(size is None or size >= 0 for size in out) else None


def _image(node: Any, batch: int | None, sizes: Sequence[int | None] | None, channels: int | None) -> Shapes:
    if sizes is None:
        return None
    return ((batch, channels, *sizes),) if channel_axis(node, IMAGE) == 1 else ((batch, *sizes, channels),)


def _convolution(known: Known, node: Any, sources: Sequence[Source]) -> Shapes:
    shapes = input_shapes(known, sources)
    if shapes is None or any(len(shape) != IMAGE for shape in shapes):
        return None
    image, kernel = shapes
    given, taken = image[channel_axis(node, IMAGE)], kernel[2]
    if None in (given, taken):
        return None
    if node.op == "Conv2D":
        fits, channels = given == taken, kernel[3]
    else:
        fits, channels = given == taken, None if kernel[3] is None else (given or 0) * kernel[3]
    return _image(node, image[0], _window(node, image, kernel[:2]), channels) if fits else None


def _pooling(known: Known, node: Any, sources: Sequence[Source]) -> Shapes:
    shape, window = known.shape(sources[0]), list(node.attr["ksize"].list.i)
    axis = channel_axis(node, IMAGE)
    if shape is None or len(shape) != IMAGE or len(window) != IMAGE or window[0] != 1 or window[axis] != 1:
        return None
    sizes = window[2:] if axis == 1 else window[1:3]
    return _image(node, shape[0], _window(node, shape, sizes), shape[axis])


def _image_gradient(known: Known, node: Any, sources: Sequence[Source]) -> Shapes:
    """The shape is given; the batch of a convolution is that of the gradient."""
    wanted, given = sizes(known.value(sources[0])), known.shape(sources[2])
    if wanted is None or wanted[0] is None or given is None or len(wanted[0]) != IMAGE or len(given) != IMAGE:
        return None
    batch = given[:1] if node.op == "Conv2DBackpropInput" else wanted[0][:1]
    return ((*batch, *wanted[0][1:]),) if merged(wanted[0][:1], given[:1]) else None


def _batch_norm(known: Known, node: Any, sources: Sequence[Source]) -> Shapes:
    shapes = input_shapes(known, sources, 2)
    if shapes is None or len(shapes[0]) != IMAGE or len(shapes[1]) != 1:
        return None
    axis = channel_axis(node, IMAGE)
    channels = merged((shapes[0][axis],), shapes[1])
    if channels is None or None in channels:
        return None
    image = (*shapes[0][:axis], *channels, *shapes[0][axis + 1 :])
    return (image, channels, channels, channels, channels, None)


def _batch_norm_gradient(known: Known, node: Any, sources: Sequence[Source]) -> Shapes:
    shapes = input_shapes(known, sources, 2)
    image = None if shapes is None else merged(*shapes)
    if image is None or len(image) != IMAGE or None in image:
        return None
    channels = (image[channel_axis(node, IMAGE)],)
    return (image, channels, channels, (0,), (0,))


FUNCTIONS: dict[str, Function] = {
    **dict.fromkeys(("Conv2D", "DepthwiseConv2dNative"), _convolution),
    **dict.fromkeys(("Conv2DBackpropInput", "DepthwiseConv2dNativeBackpropInput"), _image_gradient),
    **dict.fromkeys(("Conv2DBackpropFilter", "DepthwiseConv2dNativeBackpropFilter"), by_value(1)),
    **dict.fromkeys(("MaxPool", "AvgPool"), _pooling),
    "AvgPoolGrad": by_value(0),
    "BiasAdd": _bias_add,
    "BiasAddGrad": _bias_add_grad,
    "FusedBatchNormGradV3": _batch_norm_gradient,
    "FusedBatchNormV3": _batch_norm,
    "MaxPoolGrad": first_shape,
}
"""Kind -> the shapes of its outputs."""
