"""Text and recommendation models of the corpus, in Keras 3: encoder, decoder, LSTM, embedding tables."""

from typing import Any

import keras
from benchmarks.corpus_training import adam, floats, integers, sgd, supervised_step
from benchmarks.flat_graph import Step
from keras import layers


def token_loss() -> Any:
    """Cross-entropy over a vocabulary, from logits."""
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def encoder(blocks: int = 12, width: int = 768, length: int = 128, vocabulary: int = 30522) -> Step:
    """Train a BERT-like encoder: post-norm blocks, segment embeddings, masked-token head."""
    tokens, segments = keras.Input((length,), dtype="int32"), keras.Input((length,), dtype="int32")
    hidden = embed(tokens, vocabulary, width) + layers.Embedding(2, width)(segments)
    hidden = layers.Dropout(0.1)(layers.LayerNormalization(epsilon=1e-12)(hidden))
    for _ in range(blocks):
        hidden = layers.LayerNormalization(epsilon=1e-12)(hidden + attend(hidden, width, causal=False))
        hidden = layers.LayerNormalization(epsilon=1e-12)(hidden + feed_forward(hidden, width))
    hidden = layers.LayerNormalization(epsilon=1e-12)(layers.Dense(width, activation="gelu")(hidden))
    model = keras.Model([tokens, segments], layers.Dense(vocabulary)(hidden))
    inputs = [integers(length), integers(length)]
    return supervised_step(model, adam(keras), token_loss(), inputs, integers(length))


def decoder(blocks: int = 12, width: int = 768, length: int = 512, vocabulary: int = 50257) -> Step:
    """Train a GPT-2-like decoder: pre-norm blocks, causal attention, next-token head."""
    tokens = keras.Input((length,), dtype="int32")
    hidden = layers.Dropout(0.1)(embed(tokens, vocabulary, width))
    for _ in range(blocks):
        hidden = hidden + attend(layers.LayerNormalization()(hidden), width, causal=True)
        hidden = hidden + feed_forward(layers.LayerNormalization()(hidden), width)
    hidden = layers.LayerNormalization()(hidden)
    model = keras.Model([tokens], layers.Dense(vocabulary, use_bias=False)(hidden))
    return supervised_step(model, adam(keras), token_loss(), [integers(length)], integers(length))


def embed(tokens: Any, vocabulary: int, width: int) -> Any:
    """Token embedding plus a learned position embedding."""
    positions = keras.ops.arange(tokens.shape[1])
    return layers.Embedding(vocabulary, width)(tokens) + layers.Embedding(tokens.shape[1], width)(positions)


def attend(hidden: Any, width: int, *, causal: bool) -> Any:
    """Self-attention with heads of 64 and dropout."""
    attention = layers.MultiHeadAttention(width // 64, 64, dropout=0.1)
    return layers.Dropout(0.1)(attention(hidden, hidden, use_causal_mask=causal))


def feed_forward(hidden: Any, width: int) -> Any:
    """Two dense layers, GELU between them."""
    return layers.Dropout(0.1)(layers.Dense(width)(layers.Dense(4 * width, activation="gelu")(hidden)))


def lstm_language_model(width: int = 650, length: int = 35, vocabulary: int = 10000) -> Step:
    """Train two LSTM layers, which lower to while loops over tensor lists."""
    tokens = keras.Input((length,), dtype="int32")
    hidden = layers.Embedding(vocabulary, width)(tokens)
    for _ in range(2):
        hidden = layers.Dropout(0.5)(layers.LSTM(width, return_sequences=True)(hidden))
    model = keras.Model([tokens], layers.Dense(vocabulary)(hidden))
    optimizer = sgd(keras, momentum=0.0)
    return supervised_step(model, optimizer, token_loss(), [integers(length)], integers(length))


def recommender(tables: int = 26, rows: int = 100_000, width: int = 64) -> Step:
    """Train a DLRM: dense features, one embedding table a category, pairwise products, two towers."""
    dense = keras.Input((13,))
    categories = keras.Input((tables,), dtype="int32")
    bottom = tower(dense, (512, 256, width))
    columns = [layers.Embedding(rows, width)(categories[:, table]) for table in range(tables)]
    stacked = keras.ops.stack([bottom, *columns], axis=1)
    products = keras.ops.matmul(stacked, keras.ops.transpose(stacked, (0, 2, 1)))
    joined = layers.Concatenate()([bottom, layers.Flatten()(products)])
    model = keras.Model([dense, categories], layers.Dense(1)(tower(joined, (512, 256))))
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    inputs = [floats(13), integers(tables)]
    return supervised_step(model, sgd(keras, momentum=0.0), loss, inputs, target=floats(1))


def tower(hidden: Any, widths: tuple[int, ...]) -> Any:
    """Stack dense layers, ReLU after each."""
    for width in widths:
        hidden = layers.Dense(width, activation="relu")(hidden)
    return hidden
