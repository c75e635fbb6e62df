"""Sessions that train: scenarios for any defaults of TensorFlow. TRAINING lists them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from tests.tensorflow.sessions.session_lab import LOW, Trace, assert_same_surface, float16_nodes, plainly, v1

if TYPE_CHECKING:
    from collections.abc import Callable

RNG = np.random.default_rng(7)
ROWS = RNG.normal(size=(8, 4)).astype("float32")
WEIGHTS = RNG.normal(size=(4, 3)).astype("float32")
PIXELS = RNG.normal(size=(2, 8, 8, 3)).astype("float32")


def dense(inputs: Any, units: int, name: str, activation: Any = None) -> Any:
    """A dense layer made of variables and plain ops."""
    with v1.variable_scope(name):
        kernel = v1.get_variable("kernel", [inputs.shape[-1], units], initializer=v1.random_normal_initializer(seed=3))
        bias = v1.get_variable("bias", [units], initializer=v1.zeros_initializer())
        out = tf.nn.bias_add(tf.matmul(inputs, kernel, name="product"), bias, name="sum")
    return out if activation is None else activation(out)


def regression() -> tuple[Any, Any, Any]:
    """A small network: its input, its loss and its training step."""
    rows = v1.placeholder(tf.float32, [None, 4], name="rows")
    hidden = dense(rows, 16, "hidden", tf.nn.relu)
    loss = tf.reduce_mean(tf.square(dense(hidden, 3, "out") - tf.stop_gradient(tf.matmul(rows, WEIGHTS))), name="loss")
    step = v1.train.AdamOptimizer(0.05, name="adam").minimize(loss, v1.train.get_or_create_global_step())
    return rows, loss, step


def training_by_object_and_by_name() -> None:
    rows, loss, step = regression()
    with v1.Session(config=plainly()) as session:
        session.run(v1.global_variables_initializer())
        first = session.run(loss, {rows: ROWS})
        trace = Trace(session, [step, loss], {rows: ROWS})
        trace.low("MatMul", "Relu", "ReluGrad")
        trace.full("Mean")
        assert trace.nodes["hidden/sum__mixdown"].attr["T"].type == LOW
        for _ in range(30):
            session.run("adam", {"rows:0": ROWS})
        last = session.run("loss:0", {"rows:0": ROWS})
        assert np.isfinite(last)
        assert last < 0.2 * first
        assert last.dtype == np.float32
        assert_same_surface(session)


def training_is_close_to_float32() -> None:
    rows, loss, step = regression()
    losses = {}
    for mixed in (True, False):
        with v1.Session(config=plainly(mixed=mixed)) as session:
            session.run(v1.global_variables_initializer())
            losses[mixed] = [session.run([loss, step], {rows: ROWS})[0] for _ in range(10)]
    assert losses[True] != losses[False]
    np.testing.assert_allclose(losses[True], losses[False], rtol=2e-2)


def saving_restoring_and_summaries() -> None:
    rows, loss, step = regression()
    summary = v1.summary.scalar("loss_summary", loss)
    saver = v1.train.Saver()
    with tempfile.TemporaryDirectory() as folder, v1.Session(config=plainly()) as session:
        session.run(v1.global_variables_initializer())
        session.run(step, {rows: ROWS})
        variable = next(v for v in v1.trainable_variables() if v.op.name == "hidden/kernel")
        kernel = session.run(variable)
        assert kernel.dtype == np.float32
        event = v1.Summary.FromString(session.run(summary, {rows: ROWS}))
        assert event.value[0].tag == "loss_summary"
        path = saver.save(session, f"{folder}/model", global_step=1)
        session.run(step, {rows: ROWS})
        assert np.abs(session.run(variable) - kernel).max() > 0
        saver.restore(session, path)
        np.testing.assert_array_equal(session.run(variable), kernel)
        reader = tf.train.load_checkpoint(path)
        assert reader.get_tensor("hidden/kernel").dtype == np.float32
        np.testing.assert_array_equal(reader.get_tensor("hidden/kernel"), kernel)
        meta = v1.MetaGraphDef.FromString(Path(f"{path}.meta").read_bytes())
        assert not float16_nodes(meta.graph_def)
        assert not float16_nodes(session.graph_def)
        assert "trainable_variables" in meta.collection_def
        assert {node.name for node in meta.graph_def.node} <= {op.name for op in session.graph.get_operations()}
        Trace(session, loss, {rows: ROWS}).low("MatMul")


def convolution_and_batch_norm() -> None:
    pixels = v1.placeholder(tf.float32, [None, 8, 8, 3], name="pixels")
    kernel = v1.get_variable("kernel", [3, 3, 3, 4], initializer=v1.random_normal_initializer(stddev=0.3, seed=1))
    scale = v1.get_variable("scale", [4], initializer=v1.ones_initializer())
    moving = v1.get_variable("moving", [4], initializer=v1.zeros_initializer(), trainable=False)
    convolved = tf.nn.conv2d(pixels, kernel, 1, "SAME", name="convolved")
    normal, mean, _ = v1.nn.fused_batch_norm(convolved, scale, tf.zeros([4]), name="normal")
    pooled = tf.nn.max_pool2d(tf.nn.relu(normal), 2, 2, "SAME", name="pooled")
    again = tf.nn.conv2d(pooled, tf.ones([1, 1, 4, 4]), 1, "SAME", name="again")
    loss = tf.reduce_mean(tf.square(again))
    update = v1.assign(moving, 0.9 * moving + 0.1 * mean)
    step = v1.train.GradientDescentOptimizer(0.01).minimize(loss)
    with v1.Session(config=plainly()) as session:
        session.run(v1.global_variables_initializer())
        trace = Trace(session, [step, update, loss], {pixels: PIXELS})
        trace.low("Conv2D", "Conv2DBackpropFilter", "Conv2DBackpropInput", "MaxPool", "FusedBatchNormV3")
        assert trace.nodes["normal__mixdown"].attr["U"].type != LOW
        assert "normal" not in trace.nodes  # those who read the mean do not wait for a cast
        outputs = session.run(list(normal.op.outputs), {pixels: PIXELS})
        assert {output.dtype for output in outputs} == {np.dtype("float32")}
        expected = session.run(tf.nn.moments(convolved, [0, 1, 2]), {pixels: PIXELS})[0]
        np.testing.assert_allclose(outputs[1], expected, atol=2e-3)
        fed = session.run([mean * 2, normal + 1], {mean: np.full(4, 5.0), normal: np.full((2, 8, 8, 4), 70000.0)})
        np.testing.assert_array_equal(fed[0], np.full(4, 10.0))
        np.testing.assert_array_equal(fed[1], np.full((2, 8, 8, 4), 70001.0))
        assert np.isinf(session.run(pooled, {normal: np.full((2, 8, 8, 4), 70000.0)})).all()
        assert_same_surface(session)


def monitored_sessions() -> None:
    rows, loss, step = regression()
    v1.summary.scalar("loss_summary", loss)
    with tempfile.TemporaryDirectory() as folder:
        hooks = [v1.train.StopAtStepHook(last_step=4), v1.train.NanTensorHook(loss)]
        settings = {"checkpoint_dir": folder, "save_checkpoint_steps": 2, "save_summaries_steps": 2}
        with v1.train.MonitoredTrainingSession(
            hooks=hooks, config=plainly(), log_step_count_steps=None, **settings
        ) as session:
            while not session.should_stop():
                session.run(step, {rows: ROWS})
        assert tf.train.load_variable(folder, "global_step") == 4
        assert list(Path(folder).glob("events*"))
        with v1.train.SingularMonitoredSession(checkpoint_dir=folder, config=plainly()) as session:
            assert session.run(v1.train.get_global_step()) == 4
            Trace(session.raw_session(), loss, {rows: ROWS}).low("MatMul")


TRAINING: tuple[Callable[[], None], ...] = (
    training_by_object_and_by_name,
    training_is_close_to_float32,
    saving_restoring_and_summaries,
    convolution_and_batch_norm,
    monitored_sessions,
)
