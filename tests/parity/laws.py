"""What every rewrite must keep, whatever the rules: each law a function that a test asserts."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from mixdown import Policy, rewrite_graph_def


@contextmanager
def unchanged_input(graph_def: Any) -> Iterator[None]:
    """Assert that what happens inside leaves the graph byte for byte as it was."""
    before = graph_def.SerializeToString(deterministic=True)
    yield
    assert graph_def.SerializeToString(deterministic=True) == before


def same_interface(original: Any, rewritten: Any, tensors: Sequence[str]) -> bool:
    """Whether a fresh graph imports both, and finds the tensors under their names with their dtypes and shapes."""
    before, after = imported(original), imported(rewritten)
    return [signature(before, name) for name in tensors] == [signature(after, name) for name in tensors]


def signature(graph: tf.Graph, name: str) -> tuple[str, tf.DType, str]:
    """Name, dtype and shape of a tensor."""
    tensor = graph.get_tensor_by_name(name)
    return tensor.name, tensor.dtype, str(tensor.shape)


def same_after_two_rewrites(rewritten: Any, fetches: Sequence[str], feeds: Sequence[str], policy: Policy) -> bool:
    """Whether rewriting a rewritten graph gives the same bytes."""
    again = rewrite_graph_def(rewritten, fetches, feeds=feeds, policy=policy).graph_def
    return again.SerializeToString(deterministic=True) == rewritten.SerializeToString(deterministic=True)


def imported(graph_def: Any) -> tf.Graph:
    """Import into a fresh graph: TensorFlow checks every type and shape on the way."""
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(graph_def, name="")
    return graph
