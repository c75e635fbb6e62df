"""Compiled functions that 16 bits would only burden run in float32, and the report says why."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tests.tensorflow.calls.twins_probe import BFLOAT16, ON_CPU, executed

import mixdown

WEIGHTS = tf.Variable(np.random.default_rng(0).normal(size=(1024, 1024)).astype("float32"))
MORE = "it would move more bytes with {} copies of what it reads than it does in float32"


def dense(*, jit_compile: bool = True, batch: int | None = 8) -> Any:
    """Two matrix products of one large weight."""
    specs = [tf.TensorSpec((batch, 1024))]
    return tf.function(
        lambda x: tf.nn.relu(x @ WEIGHTS) @ WEIGHTS, jit_compile=jit_compile, autograph=False, input_signature=specs
    )


@pytest.mark.parametrize("policy", [ON_CPU, BFLOAT16], ids=lambda policy: policy.low)
def test_copies_of_large_weights_for_few_rows_are_not_made(policy: mixdown.Policy) -> None:
    rows, function = tf.ones((8, 1024)), dense()
    expected = function(rows)
    with mixdown.rewriting(policy):
        ran = executed(lambda: function(rows))
    assert ran.all_full("MatMul")
    np.testing.assert_array_equal(ran.value, expected)
    report = mixdown.explain(function, policy=policy)
    assert MORE.format(policy.low) in str(report)
    assert "the whole function would move more bytes than in float32" in report.why("matmul")


@pytest.mark.parametrize(
    ("function", "rows", "policy"),
    [
        (dense(batch=1024), 1024, ON_CPU),
        (dense(batch=None), 8, ON_CPU),
        (dense(jit_compile=False), 8, ON_CPU),
        (dense(), 8, ON_CPU.with_allow("MatMul")),
    ],
    ids=["many rows", "rows not known", "not compiled", "allowed by the policy"],
)
def test_other_products_run_in_16_bits(function: Any, rows: int, policy: mixdown.Policy) -> None:
    with mixdown.rewriting(policy):
        ran = executed(lambda: function(tf.ones((rows, 1024))))
    assert ran.all_low("MatMul")
