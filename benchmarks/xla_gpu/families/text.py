"""Transformers and recurrent networks: one training step from each of the usual families."""

from typing import Any

import keras
from benchmarks.xla_gpu.families.example import Example, indices, numbers
from keras import layers, ops

WORDS = 8000


def transformer(blocks: int = 4, width: int = 512, length: int = 128) -> Any:
    """Pre-norm transformer blocks with eight heads and GELU, and a head that classifies every position."""
    start = keras.Input((length, width))
    hidden = layers.Dense(width)(start)  # so that the values between the blocks have the dtype of the policy
    for _ in range(blocks):
        normal = layers.LayerNormalization()(hidden)
        hidden = hidden + layers.MultiHeadAttention(8, width // 8)(normal, normal)
        normal = layers.LayerNormalization()(hidden)
        hidden = hidden + layers.Dense(width)(layers.Dense(4 * width, activation="gelu")(normal))
    return keras.Model(start, layers.Dense(1000)(layers.LayerNormalization()(hidden)))


def encoder(width: int = 256, length: int = 128) -> Any:
    """Post-norm blocks with dropout and a padding mask, and a word predicted at every position, as in BERT."""
    tokens = keras.Input((length,), dtype="int32")
    padding = ops.not_equal(tokens, 0)[:, None, :]
    hidden = layers.Dropout(0.1)(layers.LayerNormalization()(_embedded(tokens, width, length)))
    for _ in range(2):
        attended = layers.MultiHeadAttention(4, width // 4, dropout=0.1)(hidden, hidden, attention_mask=padding)
        hidden = layers.LayerNormalization()(hidden + layers.Dropout(0.1)(attended))
        inner = layers.Dense(width)(layers.Dense(4 * width, activation="gelu")(hidden))
        hidden = layers.LayerNormalization()(hidden + layers.Dropout(0.1)(inner))
    return keras.Model(tokens, layers.Dense(WORDS)(hidden))


def decoder(width: int = 256, length: int = 256) -> Any:
    """Pre-norm blocks under a causal mask, and the next word predicted at every position, as in GPT-2."""
    tokens = keras.Input((length,), dtype="int32")
    hidden = _embedded(tokens, width, length)
    for _ in range(3):
        normal = layers.LayerNormalization()(hidden)
        hidden = hidden + layers.MultiHeadAttention(4, width // 4)(normal, normal, use_causal_mask=True)
        normal = layers.LayerNormalization()(hidden)
        hidden = hidden + layers.Dense(width)(layers.Dense(4 * width, activation="gelu")(normal))
    return keras.Model(tokens, layers.Dense(WORDS, use_bias=False)(layers.LayerNormalization()(hidden)))


def gated_decoder(width: int = 256, length: int = 128) -> Any:
    """RMS normalisation, gated feed-forward blocks and attention written out by hand, as in Llama."""
    tokens = keras.Input((length,), dtype="int32")
    hidden = layers.Embedding(WORDS, width)(tokens)
    for _ in range(3):
        hidden = hidden + CausalAttention(4)(layers.RMSNormalization()(hidden))
        normal = layers.RMSNormalization()(hidden)
        gated = layers.Dense(3 * width, activation="silu", use_bias=False)(normal)
        hidden = hidden + layers.Dense(width, use_bias=False)(gated * layers.Dense(3 * width, use_bias=False)(normal))
    return keras.Model(tokens, layers.Dense(WORDS, use_bias=False)(layers.RMSNormalization()(hidden)))


def vision_transformer(width: int = 192) -> Any:
    """Patches, a learned position, pre-norm blocks without a mask, and one class an image."""
    start = keras.Input((128, 128, 3))
    patches = layers.Reshape((-1, width))(layers.Conv2D(width, 8, 8)(start))
    hidden = patches + layers.Embedding(patches.shape[1], width)(ops.arange(patches.shape[1]))
    for _ in range(4):
        normal = layers.LayerNormalization()(hidden)
        hidden = hidden + layers.MultiHeadAttention(3, width // 3)(normal, normal)
        normal = layers.LayerNormalization()(hidden)
        hidden = hidden + layers.Dense(width)(layers.Dense(4 * width, activation="gelu")(normal))
    pooled = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(hidden))
    return keras.Model(start, layers.Dense(1000)(pooled))


def translator(width: int = 256, length: int = 64) -> Any:
    """An encoder, and a decoder that attends to it, with ReLU, as in the first transformer."""
    source, target = (keras.Input((length,), dtype="int32") for _ in range(2))
    memory = _embedded(source, width, length)
    for _ in range(2):
        memory = layers.LayerNormalization()(memory + layers.MultiHeadAttention(4, width // 4)(memory, memory))
        memory = layers.LayerNormalization()(memory + _relu_block(memory))
    hidden = _embedded(target, width, length)
    for _ in range(2):
        inner = layers.MultiHeadAttention(4, width // 4)(hidden, hidden, use_causal_mask=True)
        hidden = layers.LayerNormalization()(hidden + inner)
        hidden = layers.LayerNormalization()(hidden + layers.MultiHeadAttention(4, width // 4)(hidden, memory))
        hidden = layers.LayerNormalization()(hidden + _relu_block(hidden))
    return keras.Model([source, target], layers.Dense(WORDS)(hidden))


def experts(width: int = 256, length: int = 128) -> Any:
    """Transformer blocks whose feed-forward part is one of eight experts, chosen for every word."""
    tokens = keras.Input((length,), dtype="int32")
    hidden = _embedded(tokens, width, length)
    for _ in range(2):
        normal = layers.LayerNormalization()(hidden)
        hidden = hidden + layers.MultiHeadAttention(4, width // 4)(normal, normal, use_causal_mask=True)
        hidden = hidden + Experts(8, 2 * width)(layers.LayerNormalization()(hidden))
    return keras.Model(tokens, layers.Dense(WORDS)(layers.LayerNormalization()(hidden)))


def recurrent(width: int = 512, length: int = 32) -> Any:
    """Two LSTM layers over words."""
    tokens = keras.Input((length,), dtype="int32")
    hidden = layers.Embedding(WORDS, width)(tokens)
    for _ in range(2):
        hidden = layers.LSTM(width, return_sequences=True)(hidden)
    return keras.Model(tokens, layers.Dense(WORDS)(hidden))


class CausalAttention(layers.Layer):
    """Self-attention with one projection for queries, keys and values, and masked scores."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def build(self, shape: Any) -> None:
        """Make the weights."""
        self.inner = layers.Dense(3 * shape[-1], use_bias=False)
        self.outer = layers.Dense(shape[-1], use_bias=False)
        self.inner.build(shape)
        self.outer.build(shape)

    def call(self, values: Any) -> Any:
        """Apply the layer."""
        _, length, width = values.shape
        split = ops.reshape(self.inner(values), (-1, length, 3, self.heads, width // self.heads))
        query, key, value = (ops.transpose(split[:, :, part], (0, 2, 1, 3)) for part in range(3))
        scores = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2))) * (width // self.heads) ** -0.5
        scores = ops.where(ops.tril(ops.ones((length, length), "bool")), scores, -1e4)
        mixed = ops.matmul(ops.softmax(scores), value)
        return self.outer(ops.reshape(ops.transpose(mixed, (0, 2, 1, 3)), (-1, length, width)))


class Experts(layers.Layer):
    """Sends every word through the expert with the highest score, weighted by that score."""

    def __init__(self, count: int, inner: int) -> None:
        super().__init__()
        self.count, self.inner = count, inner

    def build(self, shape: Any) -> None:
        """Make the weights."""
        width = shape[-1]
        self.router = self.add_weight(shape=(width, self.count), name="router")
        self.up = self.add_weight(shape=(self.count, width, self.inner), name="up")
        self.down = self.add_weight(shape=(self.count, self.inner, width), name="down")

    def call(self, values: Any) -> Any:
        """Apply the layer."""
        chances = ops.softmax(ops.matmul(values, self.router))
        best = ops.one_hot(ops.argmax(chances, axis=-1), self.count, dtype=chances.dtype)
        weights = chances * best
        inner = ops.gelu(ops.einsum("btd,edf,bte->betf", values, self.up, best))
        return ops.einsum("betf,efd,bte->btd", inner, self.down, weights)


def _embedded(tokens: Any, width: int, length: int) -> Any:
    places = layers.Embedding(length, width)(ops.arange(length))
    return layers.Embedding(WORDS, width)(tokens) + places


def _relu_block(values: Any) -> Any:
    width = values.shape[-1]
    return layers.Dense(width)(layers.Dense(4 * width, activation="relu")(values))


MODELS = {
    "transformer": Example(transformer, (numbers(32, 128, 512),), (indices(32, 128),)),
    "BERT": Example(encoder, (indices(16, 128),), (indices(16, 128),)),
    "GPT": Example(decoder, (indices(8, 256),), (indices(8, 256),)),
    "Llama": Example(gated_decoder, (indices(16, 128),), (indices(16, 128),)),
    "ViT": Example(vision_transformer, (numbers(32, 128, 128, 3),), (indices(32),)),
    "translator": Example(translator, (indices(16, 64), indices(16, 64)), (indices(16, 64),)),
    "experts": Example(experts, (indices(8, 128),), (indices(8, 128),)),
    "LSTM": Example(recurrent, (indices(32, 32),), (indices(32, 32),)),
}
