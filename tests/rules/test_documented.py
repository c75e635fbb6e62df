"""What the documentation promises of each kind of op, on graphs that are rewritten and run."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf
from tests.tensorflow.graph_kit import EYE, ONES, checked, graph_of, matmul, out, raw, x

from mixdown import Policy
from mixdown.core import Category

FEEDS = {"x": ONES / 2, "y": EYE}
lows = pytest.mark.parametrize("low", ["float16", "bfloat16"])


def policy(low: str) -> Policy:
    return Policy(low=low, devices=("CPU",))


UNSAFE: dict[str, Any] = {
    "Softmax": lambda a: raw.Softmax(logits=a, name="op"),
    "LogSoftmax": lambda a: raw.LogSoftmax(logits=a, name="op"),
    "Log": lambda a: raw.Log(x=a + 1.0, name="op"),
    "Log1p": lambda a: raw.Log1p(x=a, name="op"),
    "Exp": lambda a: raw.Exp(x=a, name="op"),
    "Expm1": lambda a: raw.Expm1(x=a, name="op"),
    "Pow": lambda a: raw.Pow(x=a, y=2.0, name="op"),
    "Sum": lambda a: raw.Sum(input=a, axis=[0], keep_dims=True, name="op"),
    "Mean": lambda a: raw.Mean(input=a, axis=[0], keep_dims=True, name="op"),
    "L2Loss": lambda a: raw.L2Loss(t=a, name="op"),
    "SoftmaxCrossEntropyWithLogits": lambda a: raw.SoftmaxCrossEntropyWithLogits(features=a, labels=x("y"), name="op")[
        1
    ],
    "SparseSoftmaxCrossEntropyWithLogits": lambda a: raw.SparseSoftmaxCrossEntropyWithLogits(
        features=a, labels=[0, 1], name="op"
    )[1],
}


@lows
@pytest.mark.parametrize("kind", UNSAFE)
def test_an_unsafe_op_is_never_low_even_between_matmuls(kind: str, low: str) -> None:
    def build() -> None:
        result = UNSAFE[kind](matmul(x(), x("y"), "before"))
        infer = raw.AddV2(x=result, y=1.0, name="infer")
        out(matmul(tf.ones([2, 2]) * infer, x("y"), "after"))

    result = checked(graph_of(build), FEEDS, policy=policy(low), tolerance=3e-2)
    assert result.run.dtypes["op"] == {"float32"}
    assert result.run.dtypes["infer"] == {"float32"}
    assert {"before", "after"} <= result.run.low()
    assert f"{kind} is on the deny list" in result.plan.why("op")


@lows
def test_conv2d_and_matmul_are_always_low(low: str) -> None:
    def build() -> None:
        image = tf.reshape(tf.exp(x()), [1, 2, 2, 1])
        filtered = raw.Conv2D(input=image, filter=tf.ones([1, 1, 1, 1]), strides=[1] * 4, padding="SAME", name="conv")
        out(tf.exp(matmul(tf.exp(tf.reshape(filtered, [2, 2])), x("y"), "m")))

    result = checked(graph_of(build), FEEDS, policy=policy(low), tolerance=5e-2)
    assert {"conv", "m"} <= result.run.low()


def add(value: Any) -> Any:
    return raw.Add(x=value, y=value, name="op")


def pool(value: Any) -> Any:
    image = raw.Reshape(tensor=value, shape=[1, 2, 2, 1])
    pooled = raw.AvgPool(value=image, ksize=[1] * 4, strides=[1] * 4, padding="SAME", name="op")
    return raw.Reshape(tensor=pooled, shape=[2, 2])


@lows
@pytest.mark.parametrize("op", [add, pool])
@pytest.mark.parametrize(
    ("upstream", "is_low"),
    [
        (lambda value: matmul(value, x("y"), "up"), True),
        (lambda value: raw.Relu(features=matmul(value, x("y"), "up")), True),
        (lambda value: raw.Exp(x=matmul(value, x("y"), "up")), False),
        (lambda value: raw.Relu(features=raw.Exp(x=matmul(value, x("y"), "up"))), False),
        (lambda value: raw.Tanh(x=raw.Exp(x=matmul(value, x("y"), "up"))), False),
    ],
    ids=["after matmul", "after relu", "after exp", "after exp and relu", "after exp and tanh"],
)
def test_infer_ops_are_low_unless_downstream_of_a_denied_one(op: Any, upstream: Any, low: str, *, is_low: bool) -> None:
    graph_def = graph_of(lambda: out(matmul(op(upstream(x())), x("y"), "after")))
    result = checked(graph_def, FEEDS, policy=policy(low), tolerance=3e-2)
    assert (result.run.dtypes["op"] == {low}) is is_low
    assert {"up", "after"} <= result.run.low()


@lows
def test_argmax_and_abs_are_clear_and_do_as_their_neighbours_do(low: str) -> None:
    assert {policy(low).categories()[kind] for kind in ("ArgMax", "Floor", "MaxPool", "Reshape")} == {Category.CLEAR}

    def build() -> None:
        product = matmul(x(), x("y"), "m")
        out(matmul(raw.Abs(x=product, name="near"), x("y"), "n"))
        raw.ArgMax(input=product, dimension=1, name="index")
        raw.Abs(x=raw.Exp(x=x()), name="far")

    result = checked(graph_of(build), FEEDS, ["out", "index", "far"], policy=policy(low))
    assert result.types("near") == {"T": low}
    assert result.types("far") == {"T": "float32"}
