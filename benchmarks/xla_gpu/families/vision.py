"""Convolutional networks: one training step from each of the usual families."""

from typing import Any

import keras
import tensorflow as tf
from benchmarks.xla_gpu.families.example import Example, cross_entropy, indices, numbers
from keras import layers

CLASSES = 1000


def convolutions() -> Any:
    """Three convolutions, each with batch normalisation and ReLU."""
    stack: list[Any] = [keras.Input((56, 56, 64))]
    for filters in (64, 64, 128):
        stack += [_conv(filters, 3), layers.BatchNormalization(), layers.ReLU()]
    return keras.Sequential([*stack, layers.GlobalAveragePooling2D(), layers.Dense(CLASSES)])


def resnet50() -> Any:
    """ResNet50 as Keras has it, without the final softmax."""
    return keras.applications.ResNet50(
        weights=None, input_shape=(224, 224, 3), classes=CLASSES, classifier_activation=None
    )


def densely_connected() -> Any:
    """A stem, two dense blocks and the transition between them, as in DenseNet."""
    start = keras.Input((128, 128, 3))
    hidden = _conv_norm_relu(start, 64, 7, 2)
    for block, count in enumerate((4, 4)):
        if block:
            hidden = layers.AveragePooling2D(2)(_conv(hidden.shape[-1] // 2, 1)(_norm_relu(hidden)))
        for _ in range(count):
            narrow = _conv(128, 1)(_norm_relu(hidden))
            hidden = layers.Concatenate()([hidden, _conv(32, 3)(_norm_relu(narrow))])
    return _classified(start, _norm_relu(hidden))


def inverted_bottlenecks() -> Any:
    """Expansion, depthwise convolution, projection and residual sum, as in MobileNetV2."""
    start = keras.Input((128, 128, 3))
    hidden = _conv_norm_relu(start, 32, 3, 2, "relu6")
    for filters, stride in ((16, 1), (24, 2), (24, 1), (32, 2), (32, 1), (64, 2), (64, 1)):
        given = hidden
        hidden = _conv_norm_relu(hidden, 6 * hidden.shape[-1], 1, 1, "relu6")
        hidden = layers.DepthwiseConv2D(3, stride, padding="same", use_bias=False)(hidden)
        hidden = layers.Activation("relu6")(layers.BatchNormalization()(hidden))
        hidden = layers.BatchNormalization()(_conv(filters, 1)(hidden))
        hidden = layers.Add()([given, hidden]) if given.shape == hidden.shape else hidden
    return _classified(start, hidden)


def squeeze_and_excitation() -> Any:
    """Swish and channels weighted by a sigmoid, as in EfficientNet."""
    start = keras.Input((96, 96, 3))
    hidden = _conv_norm_relu(start, 32, 3, 2, "swish")
    for filters, stride in ((24, 1), (24, 1), (40, 2), (40, 1), (80, 2), (80, 1)):
        given = hidden
        hidden = _conv_norm_relu(hidden, 4 * hidden.shape[-1], 1, 1, "swish")
        hidden = layers.DepthwiseConv2D(3, stride, padding="same", use_bias=False)(hidden)
        hidden = layers.Activation("swish")(layers.BatchNormalization()(hidden))
        pooled = layers.GlobalAveragePooling2D(keepdims=True)(hidden)
        weights = layers.Conv2D(hidden.shape[-1], 1, activation="sigmoid")(_swish_conv(pooled, 16))
        hidden = layers.BatchNormalization()(_conv(filters, 1)(layers.Multiply()([hidden, weights])))
        hidden = layers.Add()([given, hidden]) if given.shape == hidden.shape else hidden
    return _classified(start, hidden)


def large_depthwise() -> Any:
    """Depthwise 7 x 7, layer normalisation, GELU and a learned scale, as in ConvNeXt."""
    start = keras.Input((96, 96, 3))
    hidden = layers.LayerNormalization()(layers.Conv2D(64, 4, 4)(start))
    for block in range(6):
        if block == 3:
            hidden = layers.Conv2D(128, 2, 2)(layers.LayerNormalization()(hidden))
        width = hidden.shape[-1]
        inner = layers.LayerNormalization()(layers.DepthwiseConv2D(7, padding="same")(hidden))
        inner = layers.Dense(width)(layers.Dense(4 * width, activation="gelu")(inner))
        hidden = hidden + LayerScale()(inner)
    return _classified(start, hidden)


def inception() -> Any:
    """Four branches a block, concatenated, as in Inception."""
    start = keras.Input((96, 96, 3))
    hidden = _conv_norm_relu(_conv_norm_relu(start, 32, 3, 2), 64, 3)
    for width in (32, 32, 48):
        pooled = layers.AveragePooling2D(3, 1, padding="same")(hidden)
        branches = [
            _conv_norm_relu(hidden, width, 1),
            _conv_norm_relu(_conv_norm_relu(hidden, width, 1), width, 5),
            _conv_norm_relu(_conv_norm_relu(_conv_norm_relu(hidden, width, 1), width, 3), width, 3),
            _conv_norm_relu(pooled, width, 1),
        ]
        hidden = layers.Concatenate()(branches)
    return _classified(start, layers.MaxPooling2D(3, 2)(hidden))


def encoder_decoder() -> Any:
    """Convolutions down and up again, with concatenated skips and a class a pixel, as in U-Net."""
    start = keras.Input((128, 128, 3))
    hidden, skips = start, []
    for filters in (32, 64, 128):
        hidden = _conv_norm_relu(_conv_norm_relu(hidden, filters, 3), filters, 3)
        skips.append(hidden)
        hidden = layers.MaxPooling2D()(hidden)
    hidden = _conv_norm_relu(hidden, 256, 3)
    for filters, skip in zip((128, 64, 32), reversed(skips), strict=True):
        raised = layers.Conv2DTranspose(filters, 2, 2, padding="same")(hidden)
        joined = layers.Concatenate()([raised, skip])
        hidden = _conv_norm_relu(_conv_norm_relu(joined, filters, 3), filters, 3)
    return keras.Model(start, layers.Conv2D(21, 1)(hidden))


def plain_deep() -> Any:
    """Convolutions with bias and ReLU, pooling, no normalisation and dropout before the classes, as in VGG."""
    stack: list[Any] = [keras.Input((96, 96, 3))]
    for filters in (64, 128, 256):
        stack += [layers.Conv2D(filters, 3, padding="same", activation="relu") for _ in range(2)]
        stack.append(layers.MaxPooling2D())
    dense = [layers.Flatten(), layers.Dense(512, activation="relu"), layers.Dropout(0.5), layers.Dense(CLASSES)]
    return keras.Sequential([*stack, *dense])


def detector() -> Any:
    """A residual backbone, a pyramid of two levels, and heads for classes and boxes, as in RetinaNet."""
    start = keras.Input((128, 128, 3))
    hidden, levels = _conv_norm_relu(start, 32, 3, 2), []
    for filters in (64, 128, 256):
        given = layers.BatchNormalization()(layers.Conv2D(filters, 1, 2, use_bias=False)(hidden))
        inner = layers.BatchNormalization()(_conv(filters, 3)(_conv_norm_relu(hidden, filters, 3, 2)))
        hidden = layers.ReLU()(given + inner)
        levels.append(hidden)
    top = layers.Conv2D(128, 1)(levels[2])
    middle = layers.Conv2D(128, 1)(levels[1]) + layers.UpSampling2D()(top)
    towers = [[layers.Conv2D(128, 3, padding="same", activation="relu") for _ in range(2)] for _ in range(2)]
    ends = [layers.Conv2D(9 * size, 3, padding="same") for size in (20, 4)]
    outputs = []
    for tower, end, size in zip(towers, ends, (20, 4), strict=True):
        flat = [layers.Reshape((-1, size))(end(tower[1](tower[0](level)))) for level in (middle, top)]
        outputs.append(layers.Concatenate(axis=1)(flat))
    return keras.Model(start, outputs)


def focal_and_boxes(outputs: Any, targets: Any) -> Any:
    """The focal loss of the classes and the smooth L1 distance of the boxes."""
    (logits, boxes), (labels, places) = outputs, targets
    chance = tf.sigmoid(logits)
    missed = labels * (1 - chance) + (1 - labels) * chance
    entropy = tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
    away = tf.abs(boxes - places)
    smooth = tf.where(away < 1.0, 0.5 * away * away, away - 0.5)
    return tf.reduce_mean(missed * missed * entropy) + tf.reduce_mean(smooth)


class LayerScale(layers.Layer):
    """Multiplies every channel by a learned number."""

    def build(self, shape: Any) -> None:
        """Make the weights."""
        self.scale = self.add_weight(shape=(shape[-1],), initializer=keras.initializers.Constant(1e-2))

    def call(self, values: Any) -> Any:
        """Apply the layer."""
        return values * self.scale


def _conv(filters: int, size: int) -> Any:
    return layers.Conv2D(filters, size, padding="same", use_bias=False)


def _swish_conv(values: Any, filters: int) -> Any:
    return layers.Conv2D(filters, 1, activation="swish")(values)


def _norm_relu(values: Any) -> Any:
    return layers.ReLU()(layers.BatchNormalization()(values))


def _conv_norm_relu(values: Any, filters: int, size: int, stride: int = 1, activation: str = "relu") -> Any:
    hidden = layers.Conv2D(filters, size, stride, padding="same", use_bias=False)(values)
    return layers.Activation(activation)(layers.BatchNormalization()(hidden))


def _classified(start: Any, hidden: Any) -> Any:
    return keras.Model(start, layers.Dense(CLASSES)(layers.GlobalAveragePooling2D()(hidden)))


MODELS = {
    "conv+BN": Example(convolutions, (numbers(64, 56, 56, 64),), (indices(64),)),
    "DenseNet": Example(densely_connected, (numbers(16, 128, 128, 3),), (indices(16),)),
    "MobileNet": Example(inverted_bottlenecks, (numbers(32, 128, 128, 3),), (indices(32),)),
    "EfficientNet": Example(squeeze_and_excitation, (numbers(32, 96, 96, 3),), (indices(32),)),
    "ConvNeXt": Example(large_depthwise, (numbers(32, 96, 96, 3),), (indices(32),)),
    "Inception": Example(inception, (numbers(32, 96, 96, 3),), (indices(32),)),
    "U-Net": Example(encoder_decoder, (numbers(16, 128, 128, 3),), (indices(16, 128, 128),), cross_entropy),
    "VGG": Example(plain_deep, (numbers(32, 96, 96, 3),), (indices(32),)),
    "detector": Example(
        detector,
        (numbers(16, 128, 128, 3),),
        (numbers(16, 2880, 20), numbers(16, 2880, 4)),
        focal_and_boxes,
    ),
    "ResNet50": Example(resnet50, (numbers(32, 224, 224, 3),), (indices(32),)),
}
