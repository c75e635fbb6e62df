"""What compiled functions may store in 16 bits behind a denied op, with values at the edge of the range and beyond."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import mixdown

SIDE = 1024  # smaller values are computed wherever they are read
EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7}
LIMITED = {"Tanh": tf.tanh, "Sigmoid": tf.sigmoid, "Erf": tf.math.erf, "Erfc": tf.math.erfc}


def limited(function: Any) -> Any:
    """A function behind an exponential, which two kernels read."""

    def run(x: Any, w: Any) -> Any:
        small = function(tf.math.expm1(tf.matmul(x, w)))  # expm1 is on the deny list
        return tf.matmul(small * tf.matmul(w, w), w), tf.matmul(small + tf.matmul(w, x), w)

    return run


def rewritten(function: Any, policy: mixdown.Policy, *values: Any) -> list[Any]:
    with mixdown.rewriting(policy):
        return tf.nest.map_structure(np.asarray, tf.nest.flatten(tf.function(function, jit_compile=True)(*values)))


@pytest.mark.parametrize("low", ["float16", "bfloat16"])
@pytest.mark.parametrize("kind", LIMITED)
def test_a_function_that_limits_what_it_reads_is_right_whatever_that_is(kind: str, low: str) -> None:
    policy, function = mixdown.Policy(low=low, devices="all"), limited(LIMITED[kind])
    x, w = tf.linspace(-30.0, 30.0, SIDE)[:, None] * tf.eye(SIDE), tf.eye(SIDE)
    if kind == "Tanh":  # the others are computed wherever they are read
        report = mixdown.explain(tf.function(function, jit_compile=True), x, w, policy=policy)
        assert f"is {low}" in report.why(kind)
    exact, found = function(x, w), rewritten(function, policy, x, w)
    for one, other in zip(exact, found, strict=True):
        assert np.isfinite(other).all()
        np.testing.assert_allclose(other, one, atol=4 * EPSILON[low] * np.abs(one).max())
