"""Where TensorFlow's own pass goes wrong and ours does not: each test shows first its fault, then our result."""

from __future__ import annotations

import os
import subprocess
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from benchmarks.oracle import theirs
from tests import fresh
from tests.tensorflow.graph_kit import (
    CPU,
    EYE,
    ONES,
    checked,
    find,
    graph_of,
    low_nodes,
    matmul,
    out,
    raw,
    run,
    types_of,
    x,
)

from mixdown import Policy, rewrite_graph_def

FEEDS = {"x": ONES, "y": EYE / 2}
RULES = pytest.mark.parametrize("rules", ["documented", "tf-2.19", "tf-2.21"])


def on_cpu(rules: str, low: str = "float16") -> Policy:
    return Policy(low=low, rules=rules, strategy="grappler", devices=("CPU",))


def loop_with_a_list() -> Any:
    """A functional loop fills a list, which is read after it."""

    def build() -> None:
        start, weights = x(), x("y")
        handle = raw.TensorListReserve(element_shape=[2, 2], num_elements=3, element_dtype=tf.float32, name="list")

        def body(i: Any, filled: Any) -> Any:
            return i + 1, tf.identity(raw.TensorListSetItem(input_handle=filled, index=i, item=start, name="put"))

        _, filled = tf.while_loop(lambda i, _: i < 3, body, (0, handle))
        rows = raw.TensorListStack(input_handle=filled, element_shape=[2, 2], element_dtype=tf.float32, name="rows")
        out(matmul(tf.reshape(rows, [6, 2]), weights, "m"))

    graph_def = graph_of(build)
    next(node for node in graph_def.node if node.op == "StatelessWhile").attr["_lower_using_switch_merge"].b = False
    return graph_def


@RULES
def test_a_list_in_a_functional_loop_has_one_element_type(rules: str) -> None:
    graph_def = loop_with_a_list()
    broken = theirs(graph_def, ["out"], "float16")
    assert types_of(find(broken, "list"))["element_dtype"] == "float16"
    assert types_of(find(broken, "put"))["element_dtype"] == "float32"
    with pytest.raises(tf.errors.InvalidArgumentError):
        run(broken, ["out"], FEEDS)

    result = checked(graph_def, FEEDS, policy=on_cpu(rules))
    elements = {name: result.types(name)["element_dtype"] for name in ("list", "put", "rows")}
    assert set(elements.values()) == {"float16"}


def infer_without_a_kernel() -> Any:
    def build() -> None:
        cube = tf.reshape(
            raw.Conv3D(
                input=x("v", (1, 2, 2, 2, 1)),
                filter=tf.ones([1, 1, 1, 1, 1]),
                strides=[1] * 5,
                padding="SAME",
                name="c",
            ),
            [1, 2, 2, 2, 1],
        )
        direct = raw.Conv3D(input=cube, filter=tf.ones([1, 1, 1, 1, 1]), strides=[1] * 5, padding="SAME", name="d")
        out(raw.AvgPool3D(input=direct, ksize=[1, 2, 2, 2, 1], strides=[1] * 5, padding="SAME", name="pool"))

    return graph_of(build)


@RULES
def test_an_infer_op_behind_a_low_one_needs_a_kernel(rules: str) -> None:
    graph_def, feeds = infer_without_a_kernel(), {"v": np.ones((1, 2, 2, 2, 1), np.float32)}
    broken = theirs(graph_def, ["out"], "float16")
    assert types_of(find(broken, "pool")) == {"T": "float16"}
    with pytest.raises((tf.errors.InvalidArgumentError, tf.errors.NotFoundError), match="AvgPool3D"):
        run(broken, ["out"], feeds)

    result = checked(graph_def, feeds, policy=on_cpu(rules))
    assert result.types("pool") == {"T": "float32"}
    assert result.run.low() >= {"c", "d"}


def chain(*, backwards: bool) -> Any:
    def build() -> None:
        value = matmul(x(), x("y"), "m")
        for kind, name in ((raw.Tanh, "t"), (raw.Sigmoid, "s")):
            value = kind(x=value, name=name)
        out(raw.Elu(features=value, name="e"))

    graph_def = graph_of(build)
    nodes = [type(node).FromString(node.SerializeToString()) for node in graph_def.node]
    del graph_def.node[:]
    graph_def.node.extend(reversed(nodes) if backwards else nodes)
    return graph_def


@pytest.mark.parametrize("rules", ["documented", "tf-2.19"])
def test_the_order_of_nodes_decides_nothing(rules: str) -> None:
    forwards, backwards = chain(backwards=False), chain(backwards=True)
    assert low_nodes(theirs(forwards, ["out"], "float16")) == {"m", "t", "s", "e"}
    assert low_nodes(theirs(backwards, ["out"], "float16")) == {"m", "t"}

    plans = [rewrite_graph_def(graph_def, ["out"], policy=on_cpu(rules)).plan for graph_def in (forwards, backwards)]
    assert plans[0] == plans[1]


def test_the_rules_of_tensorflow_2_21_depend_on_the_order_as_tensorflow_does() -> None:
    for graph_def in (chain(backwards=False), chain(backwards=True)):
        ours = rewrite_graph_def(graph_def, ["out"], policy=on_cpu("tf-2.21")).graph_def
        assert low_nodes(ours) == low_nodes(theirs(graph_def, ["out"], "float16"))


def bfloat16_loop() -> Any:
    def build() -> None:
        start = matmul(x(), x("y"), "before")
        (value,) = tf.while_loop(lambda v: v[0, 0] < 9.0, lambda v: (v + v,), (start,), name="loop")
        out(matmul(value, x("y"), "after"))

    graph_def = graph_of(build)
    next(node for node in graph_def.node if node.op == "StatelessWhile").attr["_lower_using_switch_merge"].b = False
    return graph_def


@RULES
def test_a_functional_loop_and_its_body_agree_in_bfloat16(rules: str) -> None:
    graph_def = bfloat16_loop()
    with pytest.raises(RuntimeError, match="Graph Optimizer failed"):  # the loop is bfloat16 and its body is not
        theirs(graph_def, ["out"], "bfloat16")

    result = checked(graph_def, FEEDS, policy=on_cpu(rules, "bfloat16"), tolerance=3e-2)
    loop = next(node for node in result.graph_def.node if node.op == "StatelessWhile")
    bodies = {f.signature.name: f.signature for f in result.graph_def.library.function}
    for role in ("cond", "body"):
        arguments = bodies[loop.attr[role].func.name].input_arg
        assert [argument.type for argument in arguments] == list(loop.attr["T"].list.type)
    assert {"before", "after"} <= result.run.low()


def test_a_consumer_listed_before_its_producer_is_no_trouble() -> None:
    graph_def = chain(backwards=True)
    script = dedent("""
        import sys, tensorflow as tf
        from tensorflow.python.grappler import tf_optimizer
        config, meta = tf.compat.v1.ConfigProto(), tf.compat.v1.MetaGraphDef()
        meta.graph_def.ParseFromString(sys.stdin.buffer.read())
        meta.collection_def["train_op"].node_list.value.append("out")
        for node in meta.graph_def.node: node.device = "/job:localhost/replica:0/task:0/device:CPU:0"
        options = config.graph_options.rewrite_options
        options.min_graph_nodes, options.meta_optimizer_iterations = -1, 1
        options.optimizers.append("auto_mixed_precision_cpu")
        tf_optimizer.OptimizeGraph(config, meta, verbose=False)
    """)
    emulating = subprocess.run(  # noqa: S603 - our own words
        [*fresh.python(), "-c", script],
        input=graph_def.SerializeToString(),
        capture_output=True,
        check=False,
        env={**os.environ, "TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_EMULATE_FP16": "1"},
    )
    assert emulating.returncode != 0
    assert b"IndexError" in emulating.stderr

    result = checked(graph_def, FEEDS, policy=CPU)
    assert result.run.low() == {"m"}
