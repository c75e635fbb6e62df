"""Dense, generative and graph networks, and networks on tables: one training step each."""

from typing import Any

import keras
import tensorflow as tf
from benchmarks.xla_gpu.families.example import Example, cross_entropy, indices, log_loss, numbers, squared_error
from keras import layers, ops


def mlp() -> Any:
    """Three dense layers."""
    hidden = [layers.Dense(4096, activation="relu") for _ in range(2)]
    return keras.Sequential([keras.Input((1024,)), *hidden, layers.Dense(1000)])


def tables(count: int = 16, rows: int = 20000, width: int = 64) -> Any:
    """Embedding tables whose rows meet in products of pairs, between two small networks, as in DLRM."""
    dense, sparse = keras.Input((13,)), keras.Input((count,), dtype="int32")
    bottom = layers.Dense(width, activation="relu")(layers.Dense(256, activation="relu")(dense))
    found = [layers.Embedding(rows, width)(sparse[:, table]) for table in range(count)]
    stacked = ops.stack([bottom, *found], axis=1)
    pairs = layers.Flatten()(ops.matmul(stacked, ops.transpose(stacked, (0, 2, 1))))
    hidden = layers.Concatenate()([bottom, pairs])
    for size in (512, 256):
        hidden = layers.Dense(size, activation="relu")(hidden)
    return keras.Model([dense, sparse], layers.Dense(1)(hidden))


def two_towers(rows: int = 50000, width: int = 64) -> Any:
    """A user's and an item's tower, compared within the batch."""
    users, items = (keras.Input((), dtype="int32") for _ in range(2))
    ends = []
    for given in (users, items):
        hidden = layers.Dense(256, activation="relu")(layers.Embedding(rows, width)(given))
        ends.append(layers.UnitNormalization()(layers.Dense(128)(hidden)))
    return keras.Model([users, items], 20.0 * ops.matmul(ends[0], ops.transpose(ends[1])))


def adversaries() -> Any:
    """A generator and a discriminator, trained in one step: the gradient changes its sign between them, as in DCGAN."""
    noise, real = keras.Input((100,)), keras.Input((64, 64, 3))
    hidden = layers.Reshape((8, 8, 256))(layers.Dense(8 * 8 * 256)(noise))
    for filters in (128, 64):
        hidden = layers.Conv2DTranspose(filters, 4, 2, padding="same", use_bias=False)(hidden)
        hidden = layers.ReLU()(layers.BatchNormalization()(hidden))
    fake = layers.Conv2DTranspose(3, 4, 2, padding="same", activation="tanh")(hidden)
    stack: list[Any] = [keras.Input((64, 64, 3))]
    for filters in (64, 128):
        stack.append(layers.Conv2D(filters, 4, 2, padding="same"))
        stack += [layers.BatchNormalization(), layers.LeakyReLU(0.2)]
    judge = keras.Sequential([*stack, layers.Flatten(), layers.Dense(1)])
    opposed = 2 * ops.stop_gradient(fake) - fake
    return keras.Model([noise, real], [judge(opposed), judge(real)])


def told_apart(outputs: Any, _targets: Any) -> Any:
    """How well generated images are told from real ones."""
    fake, real = outputs
    return tf.reduce_mean(tf.nn.softplus(fake)) + tf.reduce_mean(tf.nn.softplus(-real))


def autoencoder() -> Any:
    """A convolutional variational autoencoder."""
    image, noise = keras.Input((64, 64, 3)), keras.Input((64,))
    hidden = image
    for filters in (32, 64, 128):
        hidden = layers.Conv2D(filters, 3, 2, padding="same", activation="relu")(hidden)
    hidden = layers.Flatten()(hidden)
    mean, spread = layers.Dense(64)(hidden), layers.Dense(64)(hidden)
    code = mean + ops.exp(0.5 * spread) * noise
    hidden = layers.Reshape((8, 8, 64))(layers.Dense(8 * 8 * 64, activation="relu")(code))
    for filters in (128, 64, 32):
        hidden = layers.Conv2DTranspose(filters, 3, 2, padding="same", activation="relu")(hidden)
    return keras.Model([image, noise], [layers.Conv2D(3, 3, padding="same")(hidden), mean, spread])


def evidence(outputs: Any, targets: Any) -> Any:
    """The error of the reconstruction and the divergence of the code."""
    logits, mean, spread = outputs
    error = tf.nn.sigmoid_cross_entropy_with_logits(targets[0], logits)
    divergence = -0.5 * (1 + spread - tf.square(mean) - tf.exp(spread))
    return tf.reduce_sum(error) / 32 + tf.reduce_sum(divergence) / 32


def denoiser() -> Any:
    """Residual blocks with group normalisation, an embedded time, attention and skips, as in diffusion models."""
    image, time = keras.Input((64, 64, 3)), keras.Input((128,))
    step = layers.Dense(128, activation="swish")(layers.Dense(128, activation="swish")(time))
    hidden, skips = layers.Conv2D(64, 3, padding="same")(image), []
    for filters in (64, 128):
        hidden = _denoising_block(hidden, step, filters)
        skips.append(hidden)
        hidden = layers.Conv2D(filters, 3, 2, padding="same")(hidden)
    hidden = _denoising_block(hidden, step, 128)
    flat = layers.Reshape((-1, 128))(layers.GroupNormalization(8)(hidden))
    hidden = hidden + layers.Reshape(hidden.shape[1:])(layers.MultiHeadAttention(1, 128)(flat, flat))
    for filters, skip in zip((128, 64), reversed(skips), strict=True):
        hidden = layers.Conv2D(filters, 3, padding="same")(layers.UpSampling2D()(hidden))
        hidden = _denoising_block(layers.Concatenate()([hidden, skip]), step, filters)
    hidden = layers.Activation("swish")(layers.GroupNormalization(8)(hidden))
    return keras.Model([image, time], layers.Conv2D(3, 3, padding="same")(hidden))


def _denoising_block(values: Any, step: Any, filters: int) -> Any:
    inner = layers.Activation("swish")(layers.GroupNormalization(8)(values))
    inner = layers.Conv2D(filters, 3, padding="same")(inner)
    inner = inner + layers.Reshape((1, 1, filters))(layers.Dense(filters)(step))
    inner = layers.Activation("swish")(layers.GroupNormalization(8)(inner))
    inner = layers.Conv2D(filters, 3, padding="same")(inner)
    return inner + (values if values.shape == inner.shape else layers.Conv2D(filters, 1)(values))


def messages(nodes: int = 20000, edges: int = 80000, width: int = 128) -> Any:
    """Nodes that exchange messages along edges, as in graph networks."""
    features = keras.Input(batch_shape=(nodes, 64))
    ends = keras.Input(batch_shape=(edges, 2), dtype="int32")
    hidden = layers.Dense(width, activation="relu")(features)
    for _ in range(2):
        pair = ops.concatenate([ops.take(hidden, ends[:, 0], axis=0), ops.take(hidden, ends[:, 1], axis=0)], axis=-1)
        sent = layers.Dense(width, activation="relu")(pair)
        received = ops.segment_sum(sent, ends[:, 1], nodes)
        hidden = layers.Dense(width, activation="relu")(ops.concatenate([hidden, received], axis=-1))
    return keras.Model([features, ends], layers.Dense(40)(hidden))


def mixer(width: int = 192) -> Any:
    """Dense layers over patches and over channels in turn, as in MLP-Mixer."""
    start = keras.Input((96, 96, 3))
    hidden = layers.Reshape((-1, width))(layers.Conv2D(width, 8, 8)(start))
    for _ in range(4):
        across = layers.Permute((2, 1))(layers.LayerNormalization()(hidden))
        across = layers.Dense(hidden.shape[1])(layers.Dense(256, activation="gelu")(across))
        hidden = hidden + layers.Permute((2, 1))(across)
        within = layers.Dense(4 * width, activation="gelu")(layers.LayerNormalization()(hidden))
        hidden = hidden + layers.Dense(width)(within)
    return keras.Model(start, layers.Dense(1000)(layers.GlobalAveragePooling1D()(hidden)))


MODELS = {
    "MLP": Example(mlp, (numbers(256, 1024),), (indices(256),)),
    "DLRM": Example(tables, (numbers(2048, 13), indices(2048, 16)), (numbers(2048, 1),), log_loss),
    "two towers": Example(two_towers, (indices(1024), indices(1024)), (indices(1024),)),
    "GAN": Example(adversaries, (numbers(64, 100), numbers(64, 64, 64, 3)), (), told_apart),
    "VAE": Example(autoencoder, (numbers(32, 64, 64, 3), numbers(32, 64)), (numbers(32, 64, 64, 3),), evidence),
    "diffusion": Example(
        denoiser, (numbers(16, 64, 64, 3), numbers(16, 128)), (numbers(16, 64, 64, 3),), squared_error
    ),
    "graph network": Example(messages, (numbers(20000, 64), indices(80000, 2)), (indices(20000),), cross_entropy),
    "mixer": Example(mixer, (numbers(32, 96, 96, 3),), (indices(32),)),
}
