"""The corpus of training steps: parity with TensorFlow, and rewrites that import, keep their interface, are final."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from benchmarks import corpus
from benchmarks.oracle import theirs
from benchmarks.rewrite_difference import differences
from tests.parity.laws import imported, same_after_two_rewrites, same_interface, unchanged_input
from tests.parity.policies import LOWS, RULES, everywhere, like_tensorflow

from mixdown import rewrite_graph_def

GRAPHS = [*corpus.TINY, *(pytest.param(name, marks=pytest.mark.slow) for name in corpus.FULL)]


@pytest.fixture(scope="module", autouse=True)
def tiny_graphs() -> None:
    corpus.ensure(corpus.TINY)  # all in one child process, not one each


@pytest.mark.parametrize("low", LOWS)
@pytest.mark.parametrize("name", GRAPHS)
def test_types_and_casts_equal_tensorflows(name: str, low: str) -> None:
    sample = corpus.load(name)
    ours = rewrite_graph_def(sample.graph_def, sample.fetches, feeds=sample.feeds, policy=like_tensorflow(low))
    found = differences(sample.graph_def, ours.graph_def, theirs(sample.graph_def, sample.fetches, low))
    assert found == []
    assert len(ours.graph_def.node) > len(sample.graph_def.node), "no cast was inserted: nothing was compared"


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("low", LOWS)
@pytest.mark.parametrize("name", GRAPHS)
def test_a_rewrite_is_valid_final_and_leaves_its_input_alone(name: str, low: str, rules: str) -> None:
    sample, policy = corpus.load(name), everywhere(low, rules)
    with unchanged_input(sample.graph_def):
        rewritten = rewrite_graph_def(sample.graph_def, sample.fetches, feeds=sample.feeds, policy=policy).graph_def
    assert same_interface(sample.graph_def, rewritten, (*sample.feeds, *sample.fetches))
    assert same_after_two_rewrites(rewritten, sample.fetches, sample.feeds, policy)


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_of_the_corpus_is_flat_and_knows_its_shapes(name: str) -> None:
    sample = corpus.load(name)
    assert not sample.graph_def.library.function
    operations = imported(sample.graph_def).get_operations()
    floats = [tensor for operation in operations for tensor in operation.outputs if tensor.dtype == tf.float32]
    known = sum(tensor.shape.is_fully_defined() for tensor in floats)
    # TensorFlow forgets the shape of whatever a v1 loop carries.
    assert known > (0.4 if name.startswith("lstm") else 0.95) * len(floats)


@pytest.mark.parametrize("name", corpus.TINY)
def test_a_graph_of_the_corpus_trains(name: str) -> None:
    sample = corpus.load(name)
    graph = imported(sample.graph_def)
    handles = {operation.name for operation in graph.get_operations() if operation.type == "VarHandleOp"}
    with graph.as_default(), tf.compat.v1.Session() as session:
        variables = [graph.get_tensor_by_name(f"{name}:0") for name in sorted(handles)]
        session.run([small_start(handle) for handle in variables])
        weights = [tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype_of(handle)) for handle in variables]
        feeds = {name: small_value(graph.get_tensor_by_name(name)) for name in sample.feeds}
        before = session.run(weights)
        losses = session.run(list(sample.fetches), feeds)
        after = session.run(weights)
    assert np.isfinite(losses).all()
    assert any((old != new).any() for old, new in zip(before, after, strict=True) if old.ndim > 1)


def test_an_unknown_graph_is_refused_by_name() -> None:
    with pytest.raises(KeyError, match="the corpus has no graph 'vgg99'; it has resnet_tiny_k3"):
        corpus.load("vgg99")


def dtype_of(handle: tf.Tensor) -> tf.DType:
    return handle.op.get_attr("dtype")


def small_start(handle: tf.Tensor) -> tf.Operation:
    shape, dtype = tf.TensorShape(handle.op.get_attr("shape")), dtype_of(handle)
    value = tf.random.uniform(shape, 0.01, 0.1, tf.float32, seed=7)
    return tf.raw_ops.AssignVariableOp(resource=handle, value=tf.cast(value, dtype))


def small_value(tensor: tf.Tensor) -> Any:
    value = np.random.default_rng(7).uniform(size=tensor.shape)
    return np.round(value).astype(np.int32) if tensor.dtype == tf.int32 else value
