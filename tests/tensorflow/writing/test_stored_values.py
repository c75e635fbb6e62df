"""bfloat16 values that the compiler is told to store: where that pays, only in what XLA alone runs, and it runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import mixdown
from mixdown import Policy, rewrite_graph_def
from mixdown.tensorflow.writing.apply import BARRIER

SIZE = 1024  # of a side: the values have as many elements as are worth storing
SPEC = tf.TensorSpec([SIZE, SIZE], tf.float32)
VALUES = np.random.default_rng(0).normal(size=(SIZE, SIZE)).astype("float32")
WEIGHTS = (VALUES.T / SIZE).astype("float32")
NEARBY = (VALUES + WEIGHTS).astype("float32")


def block(x: Any) -> Any:
    """A sum of two products, read by a normalization, with three kernels, and by the sum behind the next product."""
    w = tf.constant(WEIGHTS)
    total = x @ w + tf.nn.relu(x) @ w
    mean = tf.reduce_mean(total, 1, keepdims=True)
    variance = tf.reduce_mean(tf.math.squared_difference(total, mean), 1, keepdims=True)
    normal = (total - mean) * tf.math.rsqrt(1 + variance)
    return tf.nn.relu(normal @ w + total) @ w


def differences(x: Any) -> Any:
    """A difference of nearly equal values, read by a product, by another one behind a Relu, and by a sum."""
    w, apart = tf.constant(WEIGHTS), tf.add_n([tf.sin(x), -tf.sin(tf.constant(NEARBY))])
    return apart @ w + tf.nn.relu(apart) @ w + tf.reduce_sum(apart, 0)


def rewritten(function: Any, low: str = "bfloat16") -> Any:
    """The rewritten graph of a call of a function."""
    concrete = tf.function(function, autograph=False, input_signature=[SPEC]).get_concrete_function()
    feeds, fetches = [[each.name for each in side] for side in (concrete.graph.inputs, concrete.graph.outputs)]
    graph_def = concrete.graph.as_graph_def(add_shapes=True)
    return rewrite_graph_def(graph_def, fetches, feeds=feeds, policy=Policy(low=low, devices="all")).graph_def


def barriers(graph_def: Any) -> list[str]:
    nodes = [node for function in graph_def.library.function for node in function.node_def]
    return [node.name for node in (*graph_def.node, *nodes) if node.op == BARRIER]


def test_a_value_that_many_kernels_read_is_stored_in_bfloat16() -> None:
    graph_def = rewritten(tf.function(block, jit_compile=True, autograph=False))
    assert barriers(graph_def) == ["add/stored_0"]


@pytest.mark.parametrize(("low", "compiled"), [("float16", True), ("bfloat16", False)])
def test_float16_and_what_is_not_compiled_need_no_barrier(low: str, *, compiled: bool) -> None:
    assert barriers(rewritten(tf.function(block, jit_compile=compiled, autograph=False), low)) == []


def test_a_compiled_function_with_a_barrier_runs_and_is_as_exact_as_bfloat16() -> None:
    compiled = tf.function(block, jit_compile=True, autograph=False)
    exact = compiled(VALUES)
    with mixdown.rewriting(Policy(low="bfloat16", devices="all")):
        found = compiled(VALUES)
    assert np.abs(found - exact).max() < 0.02 * np.abs(exact).max()
    assert (found.numpy() != exact.numpy()).any()


def test_a_function_that_runs_uncompiled_too_has_no_barrier_and_runs_both_ways() -> None:
    shared = tf.function(block, autograph=False)
    compiled = tf.function(shared, jit_compile=True, autograph=False)

    @tf.function(autograph=False)
    def both(x: Any) -> Any:
        return compiled(x) - shared(x)

    assert barriers(rewritten(both)) == []
    with mixdown.rewriting(Policy(low="bfloat16", devices="all")):
        found = both(VALUES)
    assert np.abs(found).max() < 0.02


def test_a_sum_that_is_stored_in_bfloat16_adds_float32_values_as_they_are() -> None:
    compiled = tf.function(differences, jit_compile=True, autograph=False)
    assert barriers(rewritten(compiled)) == ["AddN/stored_0"]
    exact = compiled(VALUES)
    with mixdown.rewriting(Policy(low="bfloat16", devices="all")):
        found = compiled(VALUES)
    assert np.linalg.norm(found - exact) < 0.01 * np.linalg.norm(exact)
