"""spektral's graph networks and deepctr's models of clicks."""

from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras
from benchmarks.zoo.training import BATCH, Run
from deepctr.feature_column import DenseFeat, SparseFeat, get_feature_names
from deepctr.models import DeepFM, xDeepFM
from spektral.layers import GATConv, GCNConv
from spektral.utils import gcn_filter

NODES = 64


def _graph(run: Run) -> tuple[Any, Any, Any]:
    """Features of nodes, which of them are connected, and their classes."""
    links = np.triu(run.data.uniform(size=(NODES, NODES)) < 0.1, 1)
    connected = (links | links.T).astype("float32")
    features = run.data.normal(size=(NODES, 32)).astype("float32")
    return features, connected, run.data.integers(0, 4, (NODES,))


def _classify_nodes(run: Run, layers: list[Any], connected: Any, features: Any, labels: Any) -> list[float]:
    features, connected, labels = tf.constant(features), tf.constant(connected), tf.constant(labels)

    def loss() -> Any:
        x = features
        for layer in layers:
            x = layer([x, connected])
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, x))

    return run.train(loss, lambda: [w for layer in layers for w in layer.trainable_variables])


def spektral_GCN(run: Run) -> list[float]:  # noqa: N802 - the name of the model
    """Classify nodes by graph convolutions."""
    features, connected, labels = _graph(run)
    layers = [GCNConv(32, activation="relu"), GCNConv(4)]
    return _classify_nodes(run, layers, gcn_filter(connected).astype("float32"), features, labels)


def spektral_GAT(run: Run) -> list[float]:  # noqa: N802 - the name of the model
    """Classify nodes by attention to their neighbours."""
    features, connected, labels = _graph(run)
    layers = [GATConv(8, attn_heads=4, dropout_rate=0.0, activation="elu"), GATConv(4, dropout_rate=0.0)]
    return _classify_nodes(run, layers, connected, features, labels)


def _click(run: Run, model: Any) -> list[float]:
    columns = [SparseFeat(f"s{i}", 50, embedding_dim=8) for i in range(6)] + [DenseFeat(f"d{i}", 1) for i in range(4)]
    values = {name: run.data.integers(0, 50, BATCH) for name in get_feature_names(columns) if name.startswith("s")}
    values |= {f"d{i}": run.data.normal(size=BATCH).astype("float32") for i in range(4)}
    clicks = run.data.integers(0, 2, (BATCH, 1)).astype("float32")
    return run.fit(model(columns, columns, task="binary"), values, clicks, tf_keras.losses.BinaryCrossentropy())


def deepctr_DeepFM(run: Run) -> list[float]:  # noqa: N802 - the name of the model
    """A factorization machine beside a deep network."""
    return _click(run, DeepFM)


def deepctr_xDeepFM(run: Run) -> list[float]:  # noqa: N802 - the name of the model
    """Compressed interactions."""
    return _click(run, xDeepFM)
