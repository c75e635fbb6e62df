"""Ranking and retrieval models of keras-rs: embedding tables, interactions of features, two towers."""

from typing import Any

import keras
import keras_rs
import numpy as np
from benchmarks.zoo.training import BATCH, Run
from keras import layers

TABLES, ROWS, WIDTH = 6, 100, 16


def _clicks(run: Run) -> tuple[Any, Any, Any]:
    """Numbers, one id per table, and whether there was a click."""
    numbers = run.data.normal(size=(BATCH, 8)).astype("float32")
    return numbers, run.data.integers(0, ROWS, (BATCH, TABLES)), run.data.integers(0, 2, (BATCH, 1)).astype("float32")


def _entropy() -> Any:
    return keras.losses.BinaryCrossentropy(from_logits=True)


def _embedded(ids: Any) -> list[Any]:
    return [layers.Embedding(ROWS, WIDTH)(ids[:, table]) for table in range(TABLES)]


def keras_rs_DLRM(run: Run) -> list[float]:  # noqa: N802 - the name of the model
    """Dot products of all pairs of features."""
    numbers, ids, clicks = _clicks(run)
    inputs = [keras.Input((8,)), keras.Input((TABLES,), dtype="int32")]
    dense = layers.Dense(WIDTH, activation="relu")(layers.Dense(32, activation="relu")(inputs[0]))
    pairs = keras_rs.layers.DotInteraction()([dense, *_embedded(inputs[1])])
    x = layers.Dense(32, activation="relu")(layers.Concatenate()([dense, pairs]))
    return run.fit(keras.Model(inputs, layers.Dense(1)(x)), [numbers, ids], clicks, _entropy())


def keras_rs_cross_network(run: Run) -> list[float]:
    """Explicit crosses of features beside a deep network."""
    numbers, ids, clicks = _clicks(run)
    inputs = [keras.Input((8,)), keras.Input((TABLES,), dtype="int32")]
    start = layers.Concatenate()([inputs[0], *_embedded(inputs[1])])
    x = keras_rs.layers.FeatureCross()(start)
    x = keras_rs.layers.FeatureCross()(start, x)
    return run.fit(keras.Model(inputs, layers.Dense(1)(x)), [numbers, ids], clicks, _entropy())


def keras_rs_retrieval(run: Run) -> list[float]:
    """Two towers whose products tell which items belong to which users, without the probability of sampling."""
    users, items = keras.Input((), dtype="int32"), keras.Input((), dtype="int32")
    towers = [layers.Dense(WIDTH)(layers.Embedding(ROWS, 32)(side)) for side in (users, items)]
    scores = layers.Lambda(lambda both: keras.ops.matmul(both[0], keras.ops.transpose(both[1])))(towers)
    hard = keras_rs.layers.RemoveAccidentalHits()
    model = keras.Model([users, items], scores)
    ids = [run.data.permutation(ROWS)[:BATCH] for _ in range(2)]
    labels = np.eye(BATCH, dtype="float32")

    def loss() -> Any:
        logits = hard(model(ids, training=True), labels, candidate_ids=ids[1])
        return keras.ops.mean(keras.losses.categorical_crossentropy(labels, logits, from_logits=True))

    return run.train(loss, lambda: model.trainable_variables)
