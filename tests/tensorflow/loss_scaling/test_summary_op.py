"""The v1 summary of a loss scale, written by a FileWriter and by a MonitoredTrainingSession."""

from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf
from tests.tensorflow.loss_scaling.event_files import events_in, under

import mixdown

v1 = tf.compat.v1
NAN, INF = float("nan"), float("inf")
STORY = [1.0, NAN, 1.0, INF, 1.0, 1.0]


def training() -> tuple[Any, Any, Any]:
    """The train op of one variable, what feeds it, and the summary."""
    x = v1.placeholder(tf.float32, [])
    w = v1.get_variable("w", initializer=2.0, use_resource=True)
    loss_scale = mixdown.DynamicLossScale(64.0, 2)
    optimizer = mixdown.MixedPrecisionLossScaleOptimizer(v1.train.GradientDescentOptimizer(0.1), loss_scale)
    summary = mixdown.summary_op(optimizer)
    step = v1.train.get_or_create_global_step()
    return optimizer.minimize(w * x, global_step=step), x, summary


def test_a_file_writer_writes_scale_skips_and_their_steps(tmp_path: Path) -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        train, x, summary = training()
        session.run(v1.global_variables_initializer())
        writer = v1.summary.FileWriter(str(tmp_path), session.graph)
        for number, value in enumerate(STORY):
            session.run(train, {x: value})
            writer.add_summary(session.run(summary), number)
        writer.close()
    found = events_in(tmp_path)
    assert under("mixdown/loss_scale", found) == list(enumerate([64.0, 32.0, 32.0, 16.0, 16.0, 32.0]))
    assert under("mixdown/skipped_steps", found) == list(enumerate([0, 1, 1, 2, 2, 2]))
    assert under("mixdown/skips", found)[-1] == (5, "step 1: w:0 (NaN)\nstep 3: w:0 (Inf)")


def test_a_monitored_session_writes_it_by_itself(tmp_path: Path) -> None:
    with tf.Graph().as_default():
        train, x, _ = training()
        settings = {"save_summaries_steps": 1, "save_checkpoint_secs": None, "log_step_count_steps": None}
        with v1.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path), **settings) as session:
            for value in [*STORY, 1.0, 1.0]:
                session.run(train, {x: value})
    found = events_in(tmp_path)
    assert max(value for _, value in under("mixdown/skipped_steps", found)) == 2
    assert under("mixdown/skips", found)[-1][1] == "step 1: w:0 (NaN)\nstep 3: w:0 (Inf)"
    assert {value for _, value in under("mixdown/loss_scale", found)} >= {64.0, 16.0, 32.0}


def eager() -> None:
    mixdown.summary_op(mixdown.MixedPrecisionLossScaleOptimizer(v1.train.GradientDescentOptimizer(0.1), 8))


def keras3() -> None:
    mixdown.summary_op(mixdown.LossScaleOptimizer(keras.optimizers.SGD()))


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (
            eager,
            ValueError,
            r"^summary_op is for v1 graphs, and no graph is being built here\. In eager execution, pass",
        ),
        (
            keras3,
            TypeError,
            r"^summary_op needs an optimizer that mixdown wrapped, for v1 graphs, got Keras3Loss.*\. With",
        ),
    ],
)
def test_what_cannot_be_summed_up_is_refused_with_the_way_out(call: Any, kind: Any, message: str) -> None:
    with pytest.raises(kind, match=message):
        call()
