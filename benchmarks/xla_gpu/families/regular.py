"""Networks with dropout, grouped and gated convolutions, and other normalizations: one training step each."""

from typing import Any

import keras
from benchmarks.xla_gpu.families.example import Example, indices, log_loss, numbers, squared_error
from keras import layers, ops

WORDS = 4000
DROPPED = 0.1


def dense_with_norm() -> Any:
    """Dense layers, each followed by batch normalization, ReLU and dropout."""
    start = hidden = keras.Input((512,))
    for width in (2048, 2048, 1024):
        hidden = layers.ReLU()(layers.BatchNormalization()(layers.Dense(width)(hidden)))
        hidden = layers.Dropout(0.3)(hidden)
    return keras.Model(start, layers.Dense(1000)(hidden))


def relative(width: int = 256, length: int = 128) -> Any:
    """An encoder and a decoder with RMS normalization and dropout everywhere, as in T5."""
    source, target = (keras.Input((length,), dtype="int32") for _ in range(2))
    words = layers.Embedding(WORDS, width)
    memory = _drop(words(source))
    for _ in range(2):
        memory = _gated(memory + _attended(layers.RMSNormalization()(memory)))
    memory = _drop(layers.RMSNormalization()(memory))
    hidden = _drop(words(target))
    for _ in range(2):
        hidden = hidden + _attended(layers.RMSNormalization()(hidden), is_causal=True)
        hidden = _gated(hidden + _attended(layers.RMSNormalization()(hidden), memory))
    hidden = _drop(layers.RMSNormalization()(hidden))
    return keras.Model([source, target], layers.Dense(WORDS, use_bias=False)(hidden))


def decoder_with_dropout(width: int = 256, length: int = 256) -> Any:
    """Pre-norm blocks under a causal mask, dropout everywhere and GELU by tanh, as GPT-2 is trained."""
    tokens = keras.Input((length,), dtype="int32")
    places = layers.Embedding(length, width)(ops.arange(length))
    hidden = _drop(layers.Embedding(WORDS, width)(tokens) + places)
    for _ in range(3):
        normal = layers.LayerNormalization()(hidden)
        hidden = hidden + _attended(normal, is_causal=True)
        inner = layers.Dense(4 * width, activation=_gelu_by_tanh)(layers.LayerNormalization()(hidden))
        hidden = hidden + _drop(layers.Dense(width)(inner))
    return keras.Model(tokens, layers.Dense(WORDS, use_bias=False)(layers.LayerNormalization()(hidden)))


def vision_with_dropout(width: int = 192) -> Any:
    """Patches and pre-norm blocks with dropout, also of whole branches, as vision transformers are trained."""
    start = keras.Input((64, 64, 3))
    patches = layers.Reshape((-1, width))(layers.Conv2D(width, 8, 8)(start))
    hidden = _drop(patches + layers.Embedding(patches.shape[1], width)(ops.arange(patches.shape[1])))
    for _ in range(4):
        hidden = hidden + _attended(layers.LayerNormalization()(hidden), noise_shape=(None, 1, 1))
        inner = layers.Dense(4 * width, activation="gelu")(layers.LayerNormalization()(hidden))
        hidden = hidden + _drop(layers.Dense(width)(_drop(inner)))
    pooled = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(hidden))
    return keras.Model(start, layers.Dense(100)(layers.Dropout(0.5)(pooled)))


def sound(width: int = 256) -> Any:
    """Strided convolutions over a wave, then post-norm blocks over an odd number of steps, as in wav2vec."""
    start = hidden = keras.Input((16000, 1))
    for size, stride in ((10, 5), (3, 2), (3, 2), (3, 2), (3, 2)):
        hidden = layers.LayerNormalization()(layers.Conv1D(width, size, stride, use_bias=False)(hidden))
        hidden = layers.Activation("gelu")(hidden)
    hidden = _drop(layers.Dense(width)(layers.LayerNormalization()(hidden)))
    for _ in range(2):
        hidden = layers.LayerNormalization()(hidden + _attended(hidden))
        inner = layers.Dense(width)(_drop(layers.Dense(4 * width, activation="gelu")(hidden)))
        hidden = layers.LayerNormalization()(hidden + _drop(inner))
    return keras.Model(start, layers.Dense(32)(hidden))


def sentences(length: int = 256, width: int = 128) -> Any:
    """Convolutions of several widths over words, and the largest of each, as in text CNNs."""
    tokens = keras.Input((length,), dtype="int32")
    words = layers.SpatialDropout1D(0.2)(layers.Embedding(WORDS, width)(tokens))
    found = [layers.GlobalMaxPooling1D()(layers.Conv1D(width, size, activation="relu")(words)) for size in (3, 4, 5)]
    return keras.Model(tokens, layers.Dense(50)(layers.Dropout(0.5)(layers.Concatenate()(found))))


def translated_images() -> Any:
    """An encoder and a decoder with instance normalization, skips and dropout, as in pix2pix."""
    start = hidden = keras.Input((128, 128, 3))
    skips: list[Any] = []
    for filters in (64, 128, 256, 256):
        hidden = layers.Conv2D(filters, 4, 2, padding="same", use_bias=False)(hidden)
        hidden = layers.LeakyReLU(0.2)(layers.GroupNormalization(-1)(hidden) if skips else hidden)
        skips.append(hidden)
    for filters, skip in zip((256, 128, 64), reversed(skips[:-1]), strict=True):
        hidden = layers.Conv2DTranspose(filters, 4, 2, padding="same", use_bias=False)(hidden)
        hidden = layers.Dropout(0.5)(layers.GroupNormalization(-1)(hidden))
        hidden = layers.Concatenate()([layers.ReLU()(hidden), skip])
    return keras.Model(start, layers.Conv2DTranspose(3, 4, 2, padding="same", activation="tanh")(hidden))


def pre_activated() -> Any:
    """Residual blocks that begin with normalization and ReLU, with dropout inside, as in wide residual networks."""
    start = keras.Input((64, 64, 3))
    hidden = layers.Conv2D(64, 3, padding="same", use_bias=False)(start)
    for filters, stride in ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1)):
        active = layers.ReLU()(layers.BatchNormalization()(hidden))
        same = stride == 1 and hidden.shape[-1] == filters
        given = hidden if same else layers.Conv2D(filters, 1, stride, use_bias=False)(active)
        inner = layers.Conv2D(filters, 3, stride, padding="same", use_bias=False)(active)
        inner = layers.Dropout(0.2)(layers.ReLU()(layers.BatchNormalization()(inner)))
        hidden = given + layers.Conv2D(filters, 3, padding="same", use_bias=False)(inner)
    return _classified(start, layers.ReLU()(layers.BatchNormalization()(hidden)))


def grouped() -> Any:
    """Bottlenecks with grouped convolutions, and channels weighted by what is in them, as in SE-ResNeXt."""
    start = keras.Input((96, 96, 3))
    hidden = _normed(layers.Conv2D(128, 3, 2, padding="same", use_bias=False)(start), "relu")
    for stride in (1, 1, 2, 1):
        filters = stride * hidden.shape[-1]
        inner = _normed(layers.Conv2D(filters, 1, use_bias=False)(hidden), "relu")
        inner = layers.Conv2D(filters, 3, stride, padding="same", groups=8, use_bias=False)(inner)
        inner = _normed(layers.Conv2D(filters, 1, use_bias=False)(_normed(inner, "relu")))
        pooled = layers.Dense(filters // 16, activation="relu")(layers.GlobalAveragePooling2D(keepdims=True)(inner))
        inner = inner * layers.Dense(filters, activation="sigmoid")(pooled)
        given = hidden if stride == 1 else _normed(layers.Conv2D(filters, 1, stride, use_bias=False)(hidden))
        hidden = layers.ReLU()(given + inner)
    return _classified(start, hidden)


def hard_gates() -> Any:
    """Inverted bottlenecks with hard swish and squeeze-and-excitation, as in MobileNetV3."""
    start = keras.Input((96, 96, 3))
    hidden = _normed(layers.Conv2D(16, 3, 2, padding="same", use_bias=False)(start), "hard_swish")
    for wider, filters, stride in ((4, 24, 2), (3, 24, 1), (6, 40, 2), (3, 40, 1)):
        inner = _normed(layers.Conv2D(wider * hidden.shape[-1], 1, use_bias=False)(hidden), "hard_swish")
        inner = _normed(layers.DepthwiseConv2D(5, stride, padding="same", use_bias=False)(inner))
        pooled = layers.Conv2D(16, 1, activation="relu")(layers.GlobalAveragePooling2D(keepdims=True)(inner))
        inner = inner * layers.Conv2D(inner.shape[-1], 1, activation="hard_sigmoid")(pooled)
        inner = layers.Activation("hard_swish")(inner)
        inner = _normed(layers.Conv2D(filters, 1, use_bias=False)(inner))
        hidden = hidden + inner if hidden.shape == inner.shape else inner
    last = layers.Dense(256, activation="hard_swish")(layers.GlobalAveragePooling2D()(hidden))
    return keras.Model(start, layers.Dense(100)(layers.Dropout(0.2)(last)))


def group_normed() -> Any:
    """Residual blocks with group normalization, swish and dropout, without attention."""
    start = keras.Input((64, 64, 3))
    hidden = layers.Conv2D(64, 3, padding="same")(start)
    for filters in (64, 128, 128):
        inner = layers.Activation("swish")(layers.GroupNormalization(16)(hidden))
        inner = layers.GroupNormalization(16)(layers.Conv2D(filters, 3, padding="same")(inner))
        inner = layers.Conv2D(filters, 3, padding="same")(_drop(layers.Activation("swish")(inner)))
        hidden = inner + (hidden if hidden.shape[-1] == filters else layers.Conv2D(filters, 1)(hidden))
        hidden = layers.Conv2D(filters, 3, 2, padding="same")(hidden)
    return _classified(start, hidden)


def crossed(rows: int = 100000) -> Any:
    """Rows of a table, multiplied with functions of themselves beside a small network with dropout, as in DCN."""
    dense, sparse = keras.Input((13,)), keras.Input((26,), dtype="int32")
    given = crossed = hidden = layers.Concatenate()([dense, layers.Flatten()(layers.Embedding(rows, 32)(sparse))])
    for _ in range(3):
        crossed = given * layers.Dense(given.shape[-1])(crossed) + crossed
    for width in (1024, 512):
        hidden = layers.Dropout(0.2)(layers.Dense(width, activation="relu")(hidden))
    return keras.Model([dense, sparse], layers.Dense(1)(layers.Concatenate()([crossed, hidden])))


def _drop(values: Any, **options: Any) -> Any:
    return layers.Dropout(DROPPED, **options)(values)


def _attended(values: Any, memory: Any = None, *, is_causal: bool = False, **options: Any) -> Any:
    heads = 3 if values.shape[-1] == 192 else 4
    attention = layers.MultiHeadAttention(heads, values.shape[-1] // heads, dropout=DROPPED)
    return _drop(attention(values, values if memory is None else memory, use_causal_mask=is_causal), **options)


def _gated(values: Any) -> Any:
    width = values.shape[-1]
    inner = layers.Dense(4 * width, activation="relu", use_bias=False)(layers.RMSNormalization()(values))
    return values + _drop(layers.Dense(width, use_bias=False)(_drop(inner)))


def _gelu_by_tanh(values: Any) -> Any:
    return keras.activations.gelu(values, approximate=True)


def _normed(values: Any, activation: str = "linear") -> Any:
    return layers.Activation(activation)(layers.BatchNormalization()(values))


def _classified(start: Any, hidden: Any) -> Any:
    return keras.Model(start, layers.Dense(100)(layers.GlobalAveragePooling2D()(hidden)))


MODELS = {
    "MLP+BN": Example(dense_with_norm, (numbers(256, 512),), (indices(256),)),
    "T5": Example(relative, (indices(16, 128), indices(16, 128)), (indices(16, 128),)),
    "GPT dropout": Example(decoder_with_dropout, (indices(8, 256),), (indices(8, 256),)),
    "ViT dropout": Example(vision_with_dropout, (numbers(64, 64, 64, 3),), (indices(64),)),
    "wave": Example(sound, (numbers(8, 16000, 1),), (indices(8, 199),)),
    "text CNN": Example(sentences, (indices(64, 256),), (indices(64),)),
    "pix2pix": Example(translated_images, (numbers(16, 128, 128, 3),), (numbers(16, 128, 128, 3),), squared_error),
    "wide ResNet": Example(pre_activated, (numbers(32, 64, 64, 3),), (indices(32),)),
    "SE-ResNeXt": Example(grouped, (numbers(32, 96, 96, 3),), (indices(32),)),
    "MobileNetV3": Example(hard_gates, (numbers(32, 96, 96, 3),), (indices(32),)),
    "group norm": Example(group_normed, (numbers(32, 64, 64, 3),), (indices(32),)),
    "cross network": Example(crossed, (numbers(2048, 13), indices(2048, 26)), (numbers(2048, 1),), log_loss),
}
