"""The shapes that ops on images make, as TensorFlow's own shape functions infer them: `FUNCTIONS`."""

from collections.abc import Sequence

from mixdown.tensorflow.shapes.shape_functions import Dims, Function, Shapes, View, by_value, first_shape, merged, need

IMAGE = 4  # dimensions


def _channel_axis(view: View, rank: int) -> int:
    """The axis of the channels of an image or of another value, by the node's data format."""
    return 1 if view.attribute("data_format").s.startswith(b"NC") else rank - 1


def _with_channels(view: View, value: Dims, channels: Dims) -> Dims:
    """The shape of a value with so many channels."""
    axis = _channel_axis(view, len(value))
    return (*value[:axis], *merged(value[axis : axis + 1], channels), *value[axis + 1 :])


def _bias_add(view: View) -> Shapes:
    value, bias = view.shapes()
    need(len(value) > 1 and len(bias) == 1)
    return (_with_channels(view, value, bias),)


def _bias_add_grad(view: View) -> Shapes:
    shape = view.shape(0)
    need(len(shape) > 1)
    return ((shape[_channel_axis(view, len(shape))],),)


def _window(view: View, shape: Dims, window: Sequence[int | None]) -> list[int | None]:
    """The height and width that a window sliding over an image leaves."""
    axes = (2, 3) if _channel_axis(view, IMAGE) == 1 else (1, 2)
    padding, strides = view.attribute("padding").s, view.attribute("strides").list.i
    rates = view.attribute("dilations").list.i or [1] * IMAGE
    need(padding in (b"SAME", b"VALID") and len(strides) == len(rates) == IMAGE and min(strides) > 0)
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
            out.append((given - (size - 1) * rates[axis] - 1) // strides[axis] + 1)
    need(all(size is None or size >= 0 for size in out))
    return out


def _image(view: View, batch: int | None, sizes: Sequence[int | None], channels: int | None) -> Shapes:
    return ((batch, channels, *sizes),) if _channel_axis(view, IMAGE) == 1 else ((batch, *sizes, channels),)


def _convolution(view: View) -> Shapes:
    image, kernel = view.shapes()
    need(len(image) == len(kernel) == IMAGE)
    given, (*window, taken, channels) = image[_channel_axis(view, IMAGE)], kernel
    need(given is not None and given == taken)
    if view.node.op != "Conv2D":
        channels = None if channels is None else (given or 0) * channels
    return _image(view, image[0], _window(view, image, window), channels)


def _pooling(view: View) -> Shapes:
    shape, window, axis = view.shape(0), view.attribute("ksize").list.i, _channel_axis(view, IMAGE)
    need(len(shape) == len(window) == IMAGE and window[0] == window[axis] == 1)
    sizes = window[2:] if axis == 1 else window[1:3]
    return _image(view, shape[0], _window(view, shape, sizes), shape[axis])


def _image_gradient(view: View) -> Shapes:
    """The shape is given; the batch of a convolution is that of the gradient."""
    wanted, given = view.sizes(0), view.shape(2)
    need(len(wanted) == len(given) == IMAGE)
    merged(wanted[:1], given[:1])
    batch = given[:1] if view.node.op == "Conv2DBackpropInput" else wanted[:1]
    return ((*batch, *wanted[1:]),)


def _batch_norm(view: View) -> Shapes:
    image, scale = view.shapes(2)
    need(len(image) == IMAGE and len(scale) == 1)
    image = _with_channels(view, image, scale)
    channels = (image[_channel_axis(view, IMAGE)],)
    need(None not in channels)
    return (image, channels, channels, channels, channels, None)


def _batch_norm_gradient(view: View) -> Shapes:
    image = merged(*view.shapes(2))
    need(len(image) == IMAGE and None not in image)
    channels = (image[_channel_axis(view, IMAGE)],)
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
