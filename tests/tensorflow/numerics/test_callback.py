"""Training that watches itself: the callback at the first skipped step, and the block that watches a whole program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import mixdown
from mixdown.errors import MixdownError

if TYPE_CHECKING:
    from mixdown.numerics.location import Location

ON_CPU = mixdown.Policy(devices="all")
RNG = np.random.default_rng(4)
X, Y = RNG.random((24, 8), "float32"), RNG.random((24, 3), "float32") * 300


def trained(callbacks: list[Any], **compiling: Any) -> tuple[list[bytes], Any]:
    """The weights after one epoch whose first steps overflow, with the optimizer."""
    keras.utils.set_random_seed(1)
    layers = [keras.layers.Dense(8, activation="relu"), keras.layers.Dropout(0.2), keras.layers.BatchNormalization()]
    model = keras.Sequential([keras.Input([8]), *layers, keras.layers.Dense(3, name="last")])
    optimizer = mixdown.enable_mixed_precision_graph_rewrite(keras.optimizers.Adam(), policy=ON_CPU)
    try:
        model.compile(optimizer, "mse", **compiling)
        model.fit(X, Y, batch_size=4, verbose=0, shuffle=False, callbacks=callbacks)
    finally:
        mixdown.disable_mixed_precision_graph_rewrite()
    return [each.numpy().tobytes() for each in (*model.variables, *optimizer.variables)], optimizer


@pytest.mark.parametrize(
    "compiling",
    [{}, {"steps_per_execution": 3}, pytest.param({"jit_compile": True}, marks=pytest.mark.slow)],
    ids=str,
)
def test_the_first_skipped_step_is_located_and_training_goes_on_unchanged(compiling: dict[str, Any]) -> None:
    plain, optimizer = trained([], **compiling)
    finds: list[Location] = []
    callback = mixdown.numerics.LocateCallback(finds.append)
    watched, _ = trained([callback], **compiling)
    assert optimizer.skipped_steps > 1
    assert len(finds) == 1
    assert callback.location is finds[0]
    assert finds[0].backward
    seed = np.float16(2.0**15 / Y[:4].size)  # what the mean hands back under the scale of the first step
    assert seed in [each.highest for each in finds[0].inputs]
    assert finds[0].dtype == "float16"
    if "jit_compile" not in compiling:  # XLA compiles the two ways of stepping into different programs
        assert watched == plain


def test_a_find_is_printed_unless_told_otherwise(capsys: pytest.CaptureFixture[str]) -> None:
    trained([mixdown.numerics.LocateCallback()])
    assert "made Inf or NaN of finite inputs, in float16" in capsys.readouterr().err


def test_an_optimizer_that_skips_nothing_is_refused() -> None:
    model = keras.Sequential([keras.Input([8]), keras.layers.Dense(3)])
    model.compile("sgd", "mse")
    with pytest.raises(MixdownError, match=r"this optimizer skips none: compile the model with mixdown\.LossScale"):
        model.fit(X, Y, verbose=0, callbacks=[mixdown.numerics.LocateCallback()])


def test_a_watched_program_reports_once_and_computes_the_same() -> None:
    w = tf.Variable(tf.eye(2))

    @tf.function
    def step(x: tf.Tensor) -> tf.Tensor:
        w.assign_add(tf.matmul(x, x, name="planted"))
        return w.read_value()

    finds: list[Location] = []
    with mixdown.rewriting(ON_CPU), mixdown.numerics.locating(finds.append) as found:
        results = [step(tf.eye(2) * size).numpy() for size in (1.0, 300.0, 300.0)]
    assert found == finds
    assert [each.op for each in finds] == ["planted"]
    assert results[0].tolist() == [[2.0, 0.0], [0.0, 2.0]]
    assert np.isinf(results[1][0, 0])


def test_assertions_of_the_program_hold_while_it_is_watched() -> None:
    @tf.function
    def step(x: tf.Tensor) -> tf.Tensor:
        tf.debugging.assert_less(x, 1.0)
        return tf.matmul(x, x)

    with (
        mixdown.rewriting(ON_CPU),
        mixdown.numerics.locating(),
        pytest.raises(tf.errors.InvalidArgumentError, match="assertion failed"),
    ):
        step(tf.eye(2) * 5.0)


def test_nothing_is_probed_where_no_policy_is_in_force() -> None:
    with mixdown.numerics.locating() as found:
        value = tf.function(tf.math.log)(tf.zeros([1]))
    assert np.isinf(value.numpy()).all()
    assert found == []
