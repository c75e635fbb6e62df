"""Graphs a session may have, and how they grow: scenarios for any defaults of TensorFlow. BUILDING lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig
from tensorflow.python.compiler.xla.jit import experimental_jit_scope
from tensorflow.python.framework.function import Defun
from tests.tensorflow.sessions.session_lab import (
    FULL,
    LOW,
    Trace,
    assert_same_surface,
    float16_nodes,
    plainly,
    square,
    v1,
)
from tests.tensorflow.sessions.session_training import RNG, ROWS, dense

if TYPE_CHECKING:
    from collections.abc import Callable


def loops_and_branches_with_gradients() -> None:
    start = v1.placeholder(tf.float32, [4, 4], name="start")
    weights = v1.get_variable("weights", [4, 4], initializer=v1.random_normal_initializer(stddev=0.3, seed=1))
    _, looped = tf.while_loop(lambda i, _: i < 3, lambda i, x: (i + 1, tf.nn.relu(tf.matmul(x, weights))), (0, start))
    branched = v1.cond(tf.reduce_sum(start) > 0, lambda: tf.matmul(looped, weights), lambda: tf.nn.relu(looped))
    loss = tf.reduce_sum(branched)
    (slope,) = tf.gradients(loss, weights)
    value = np.abs(RNG.normal(size=(4, 4))).astype("float32")
    results = []
    for mixed in (True, False):
        with v1.Session(config=plainly(mixed=mixed)) as session:
            weights.load(np.eye(4, dtype="float32") * 0.5, session)
            results.append([session.run([loss, slope], {start: sign * value}) for sign in (1, -1)])
            trace = Trace(session, [loss, slope], {start: value})
            assert set(trace.types("MatMul").values()) == {LOW if mixed else FULL}, trace.types("MatMul")
            if mixed:
                assert_same_surface(session)
    for low, full in zip(*results, strict=True):
        np.testing.assert_allclose(low[0], full[0], rtol=1e-2)
        np.testing.assert_allclose(low[1], full[1], rtol=1e-2, atol=1e-2)


def growth() -> None:
    product = square("product", 2.0)
    with v1.Session(config=plainly()) as session:
        assert session.run(product) == [[4.0]]
        consumer = tf.matmul(tf.nn.relu(product, name="late_relu"), tf.constant([[300.0]]) * 100, name="consumer")
        trace = Trace(session, consumer)
        trace.low("MatMul", "Relu")
        assert np.isinf(trace.values).all()
        assert "product" not in trace.nodes  # the new consumer reads the low node itself
        assert session.run(product + 1) == [[5.0]]
        with tf.control_dependencies([product.op]):
            waiting = tf.sin(0.0)
        nodes = Trace(session, waiting).nodes
        assert "product__mixdown" in nodes
        assert "product" not in nodes  # to wait for a node is not to wait for a cast of its output
        assert session.run(consumer, {product: [[0.0]]}) == [[0.0]]
        assert_same_surface(session)


def growth_that_would_change_an_earlier_decision() -> None:
    first = square("first", 2.0)
    summed = tf.add(first, 1.0, name="summed")
    with v1.Session(config=plainly()) as session:
        assert session.run(summed) == [[5.0]]
        second = tf.matmul(summed, tf.constant([[2.0]]), name="second")  # now `summed` lies between low ops
        trace = Trace(session, second)
        trace.low("MatMul")
        assert trace.types("AddV2") == {"summed": FULL}
        assert trace.values == [[10.0]]
    with v1.Session(config=plainly()) as fresh:
        Trace(fresh, second).low("MatMul", "AddV2")


def gradients_added_after_the_first_run() -> None:
    rows = v1.placeholder(tf.float32, [None, 4], name="rows")
    loss = tf.reduce_sum(dense(dense(rows, 5, "one", tf.nn.relu), 2, "two"))
    with v1.Session(config=plainly()) as session:
        session.run(v1.global_variables_initializer())
        before = session.run(loss, {rows: ROWS})
        step = v1.train.GradientDescentOptimizer(1e-3).minimize(loss)
        trace = Trace(session, step, {rows: ROWS})
        trace.low("MatMul", "ReluGrad")
        assert session.run(loss, {rows: ROWS}) < before
        assert_same_surface(session)


def functions() -> None:
    @tf.function(autograph=False)
    def inner(x: Any) -> Any:
        return tf.matmul(x, x, name="inside")

    @tf.function(autograph=False)
    def outer(x: Any) -> Any:
        return inner(tf.nn.relu(inner(x)))

    @Defun(tf.float32)
    def defined(x: Any) -> Any:
        return tf.matmul(x, x)

    with v1.Session() as session:
        large = tf.constant([[17.0]])
        assert np.isinf(session.run(outer(large))).all()
        assert np.isinf(session.run(defined(tf.constant([[300.0]])))).all()
        assert np.isinf(session.run(inner(tf.constant([[300.0]]) + large))).all()
        assert np.isinf(session.run(tf.gradients(outer(large * 3), large))).all()
        assert_same_surface(session)
        assert not float16_nodes(session.graph_def)


def growth_that_changes_how_a_function_is_called() -> None:
    @tf.function(autograph=False)
    def called(x: Any) -> Any:
        return tf.matmul(tf.nn.relu(x), x) + tf.exp(x - 300) * 0

    first = called(tf.sin([[0.0]]) + 300)
    with v1.Session(config=plainly()) as session:
        assert np.isinf(session.run(first)).all()
        second = called(square("source", 17.5))  # low, so that the function now takes a low argument
        assert np.isinf(session.run(second)).all()
        assert np.isinf(session.run(first)).all()
        assert_same_surface(session)


def growth_on_an_old_tensor_list() -> None:
    item = square("item", 2.0)
    array = tf.TensorArray(tf.float32, 3, clear_after_read=False, element_shape=[1, 1]).write(0, item).write(1, item)
    product = tf.matmul(array.read(0), item)
    with v1.Session(config=plainly()) as session:
        assert session.run(product) == [[16.0]]
        np.testing.assert_allclose(session.run(tf.exp(array.read(1))), [[np.exp(4.0)]], rtol=1e-6)
        full = array.write(2, tf.exp(item))  # with this write from the start the list would be full, but it is low
        np.testing.assert_allclose(session.run(full.stack())[:, 0, 0], [4.0, 4.0, np.exp(4.0)], rtol=1e-3)
        zero = tf.zeros([1, 1])
        _, total = tf.while_loop(lambda i, _: i < 2, lambda i, x: (i + 1, x + tf.exp(full.read(i))), (0, zero))
        np.testing.assert_allclose(session.run(total), [[2 * np.exp(4.0)]], rtol=1e-6)
        assert_same_surface(session)


def switch_and_merge() -> None:
    choice = v1.placeholder(tf.bool, [])
    data = square("data", 2.0)
    switch = tf.raw_ops.Switch(data=data, pred=choice)
    merge = tf.raw_ops.Merge(inputs=[tf.matmul(switch[0], [[10.0]]), tf.nn.relu(switch[1])])
    product = tf.matmul(merge[0], [[1.0]])
    with v1.Session(config=plainly()) as session:
        trace = Trace(session, [product, merge[1]], {choice: True})
        trace.low("Switch", "Merge", "MatMul", "Relu")
        assert trace.values == [[[4.0]], 1]
        assert session.run([product, merge[1]], {choice: False}) == [[[40.0]], 0]
        assert session.run(switch[1], {choice: True}) == [[4.0]]
        assert session.run(switch[0], {choice: False}) == [[4.0]]
        assert session.run(list(merge), {choice: False}) == [[[40.0]], 0]
        assert session.run(product, {choice: True, switch[1]: [[9.0]]}) == [[9.0]]
        assert_same_surface(session)


def compiled_functions_and_clusters() -> None:
    compiled = tf.function(lambda x: tf.nn.relu(tf.matmul(x, x)), jit_compile=True, autograph=False)
    x = v1.placeholder(tf.float32, [1, 1])
    with experimental_jit_scope():
        clustered = tf.matmul(tf.nn.relu(tf.matmul(x, x)), x)
    with v1.Session() as session:
        assert np.isinf(session.run(compiled(x), {x: [[300.0]]})).all()
        assert np.isinf(session.run(clustered, {x: [[300.0]]})).all()
        assert session.run(clustered, {x: [[2.0]]}) == [[8.0]]


def devices() -> None:
    with tf.device("/cpu:1"):
        value = tf.sin([[1.0]], name="value")
        product = tf.matmul(value, value, name="product")
    config = plainly()
    config.device_count["CPU"] = 2
    with v1.Session(config=config) as session:
        nodes = Trace(session, product).nodes
        added = ("value__mixdown_low_0", "product__mixdown", "product")
        assert {nodes[name].device[-5:] for name in added} == {"CPU:1"}
        late = tf.matmul(
            session.graph.get_tensor_by_name("value/x:0"), [[1.0]], name="late"
        )  # read low for the first time
        nodes = Trace(session, late).nodes
        assert nodes["value/x__mixdown_low_0"].device.endswith("CPU:1")
        assert nodes["late__mixdown"].device.endswith("CPU:0")


def functions_that_tensorflow_chooses_from() -> None:
    def member(device: str) -> Any:
        names = {"api_implements": "group", "api_preferred_device": device, "_noinline": True}
        return tf.function(lambda x: tf.matmul(x, x), autograph=False, experimental_attributes=names)

    x = v1.placeholder(tf.float32, [1, 1])
    chosen, other = member("CPU"), member("GPU")
    other.get_concrete_function(x).add_to_graph(v1.get_default_graph())
    config = v1.ConfigProto()
    config.graph_options.rewrite_options.min_graph_nodes = -1  # choose in a graph as small as this one
    config.graph_options.rewrite_options.meta_optimizer_iterations = (
        RewriterConfig.ONE
    )  # a second one would choose back
    with v1.Session(config=config) as session:
        assert np.isinf(session.run(chosen(x), {x: [[300.0]]})).all()
        assert np.isinf(session.run(other(x), {x: [[300.0]]})).all()


BUILDING: tuple[Callable[[], None], ...] = (
    loops_and_branches_with_gradients,
    growth,
    growth_that_would_change_an_earlier_decision,
    gradients_added_after_the_first_run,
    functions,
    growth_that_changes_how_a_function_is_called,
    growth_on_an_old_tensor_list,
    switch_and_merge,
    compiled_functions_and_clusters,
    devices,
    functions_that_tensorflow_chooses_from,
)
