"""A tf_keras loss-scale optimizer in one process: the numbers of the bare one, and no change at all if not finite."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from tests.tensorflow.loss_scaling.optimizers.tf_keras_training import (
    NAMESPACES,
    STYLES,
    bare,
    books_of,
    compiled,
    everything_of,
    fit,
    one_variable,
    weights_of,
    wrapped,
)

import mixdown

BAD = (3, 4, 9)
NAN, INF = float("nan"), float("inf")


@pytest.fixture(params=STYLES)
def style(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_the_dispatcher_picks_the_class_of_the_library(style: str) -> None:
    optimizer = mixdown.LossScaleOptimizer(bare(style))
    assert isinstance(optimizer, NAMESPACES[style].Optimizer)
    assert isinstance(optimizer, tf_keras.mixed_precision.LossScaleOptimizer)


@pytest.mark.parametrize(
    ("jit_compile", "steps_per_execution"),
    [
        (False, 1),
        (True, 5),
        pytest.param(True, 1, marks=pytest.mark.slow),
        pytest.param(False, 5, marks=pytest.mark.slow),
    ],
)
def test_fit_with_bad_batches_equals_fit_without_them(
    style: str, *, jit_compile: bool, steps_per_execution: int
) -> None:
    settings = {"jit_compile": jit_compile, "steps_per_execution": steps_per_execution}
    optimizer = wrapped(bare(style))
    net, plain = compiled(optimizer, **settings), compiled(bare(style), jit_compile=jit_compile)
    fit(net, range(15), bad=BAD)
    for start, stop in ((0, 3), (5, 9), (10, 15)):
        fit(plain, range(start, stop))
    assert weights_of(net) == weights_of(plain)
    names = ["first/kernel:0", "first/bias:0", "last/kernel:0", "last/bias:0"]
    assert books_of(optimizer) == {
        "loss_scale": 2.0**12,
        "good_steps": 5,
        "skipped_steps": 3,
        "last_skipped_step": 9,
        "skips_in_a_row": 0,
        "offending_variables": [(name, "NaN") for name in names],
        "iterations": 12,
    }


CLIPPED = {"global_clipnorm": 0.1}, {"clipnorm": 0.05}, {"clipvalue": 0.01}
NEW_ONLY = {"weight_decay": 0.1}, {"use_ema": True, "ema_momentum": 0.9, "ema_overwrite_frequency": 4}
SETTINGS = [
    *[(style, "Adam", {}) for style in STYLES],
    *[pytest.param(style, "Nadam", {}, marks=pytest.mark.slow) for style in STYLES],
    *[(style, "SGD", {"momentum": 0.9, **CLIPPED[0]}) for style in STYLES],
    *[
        pytest.param(style, "SGD", {"momentum": 0.9, **clip}, marks=pytest.mark.slow)
        for style in STYLES
        for clip in CLIPPED[1:]
    ],
    *[("new", "Adam", each) for each in NEW_ONLY],
]


@pytest.mark.parametrize(("style", "kind", "settings"), SETTINGS)
def test_steps_equal_the_bare_optimizers_and_a_skip_changes_nothing(
    style: str, kind: str, settings: dict[str, Any]
) -> None:
    optimizer = wrapped(bare(style, kind, **settings))
    net, plain = compiled(optimizer), compiled(bare(style, kind, **settings))
    fit(net, range(6))
    fit(plain, range(6))
    assert weights_of(net) == weights_of(plain)
    before = everything_of(optimizer, net)
    step = tf.function(net.train_step)
    for bad in (NAN, INF, -INF):
        step((tf.constant(bad, shape=[4, 4]), tf.ones([4, 1])))
    assert everything_of(optimizer, net) == before
    assert optimizer.skipped_steps == 3


def test_a_schedule_waits_for_a_step_that_is_applied(style: str) -> None:
    schedule = tf_keras.optimizers.schedules.PiecewiseConstantDecay([1, 2], [0.5, 0.25, 0.125])
    optimizer, v = one_variable(style, learning_rate=schedule)
    seen = []
    for factor in (1.0, NAN, 1.0, NAN, NAN, 1.0, 1.0):
        before = v.numpy()
        optimizer.minimize(lambda factor=factor: tf.reduce_sum(v * factor), [v])
        seen.append(float((before - v.numpy())[0]))
    assert seen == [0.5, 0.0, 0.5, 0.0, 0.0, 0.25, 0.125]
    assert int(optimizer.iterations) == 4


def test_the_learning_rate_can_be_read_and_set_under_both_names(style: str) -> None:
    optimizer, v = one_variable(style)
    assert float(optimizer.learning_rate) == float(optimizer.lr) == 0.5
    optimizer.learning_rate = 0.25
    optimizer.minimize(lambda: tf.reduce_sum(v), [v])
    optimizer.lr = 1.0
    assert float(optimizer.inner_optimizer.learning_rate) == 1.0
    optimizer.minimize(lambda: tf.reduce_sum(v), [v])
    assert v.numpy().tolist() == [0.75, 1.75]
    tf_keras.backend.set_value(optimizer.lr, 0.125)
    assert float(optimizer.learning_rate) == 0.125


def test_hyperparameters_are_the_inner_optimizers(style: str) -> None:
    optimizer = wrapped(bare(style, clipnorm=3.0))
    assert float(optimizer.beta_1) == pytest.approx(0.9)
    optimizer.beta_1, optimizer.clipnorm = 0.5, 4.0
    assert float(optimizer.inner_optimizer.beta_1) == 0.5
    assert optimizer.inner_optimizer.clipnorm == optimizer.clipnorm == 4.0
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = optimizer.no_such_thing


def test_a_custom_loop_scales_and_unscales_by_hand(style: str) -> None:
    optimizer, v = one_variable(style, loss_scale=1024)
    for scale in (optimizer.get_scaled_loss, optimizer.scale_loss):
        with tf.GradientTape() as tape:
            loss = scale(tf.reduce_sum(v * v))
        (scaled,) = tape.gradient(loss, [v])
        assert np.array_equal(scaled, 2048 * v.numpy())
        (gradient,) = optimizer.get_unscaled_gradients([scaled])
        expected = v.numpy() - 0.5 * gradient.numpy()
        optimizer.apply_gradients([(gradient, v)])
        assert np.array_equal(v, expected)
    assert optimizer.get_scaled_loss(lambda: tf.constant(2.0))().numpy() == 2048.0


def test_minimize_takes_a_tensor_and_its_tape(style: str) -> None:
    optimizer, v = one_variable(style, loss_scale=2.0**20)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(v * v)
    optimizer.minimize(loss, [v], tape=tape)
    assert v.numpy().tolist() == [0.0, 0.0]


def test_the_loss_is_scaled_before_it_is_differentiated(style: str) -> None:
    # In half precision 1e-8 is zero: only a scaled loss has a gradient here.
    optimizer, v = one_variable(style, loss_scale=2.0**15)
    optimizer.minimize(lambda: tf.cast(tf.cast(tf.reduce_sum(v), tf.float16), tf.float32) * 1e-8, [v])
    assert np.allclose(2.0 - v.numpy()[0], 0.5e-8, atol=1e-7)
    (gradient, _), *_ = gradients_of(optimizer, lambda: tf.reduce_sum(tf.cast(v, tf.float16)) * 1e-8, v)
    assert np.allclose(gradient, 1e-8, rtol=0.01)


def gradients_of(optimizer: Any, loss: Any, v: Any) -> Any:
    compute = getattr(optimizer, "compute_gradients", None) or optimizer._compute_gradients
    return compute(loss, [v])


@pytest.mark.parametrize("scale", [1.0, 2.0**40, 2.0**127])
def test_unscaling_gives_back_the_gradient_in_every_dtype(style: str, scale: float) -> None:
    optimizer = wrapped(bare(style), scale)
    for dtype in (tf.float16, tf.float32, tf.float64):
        scaled = tf.constant([0.5, -1.5], dtype) * tf.cast(min(scale, 2.0**14), dtype)
        (gradient,) = optimizer.get_unscaled_gradients([scaled])
        expected = np.array([0.5, -1.5]) * min(scale, 2.0**14) / scale
        assert gradient.dtype == dtype
        assert np.array_equal(gradient, expected.astype(dtype.as_numpy_dtype))


def test_sparse_gradients_stay_sparse_and_none_stays_none(style: str) -> None:
    optimizer = wrapped(bare(style, "SGD", learning_rate=1.0))
    table, unused = tf.Variable(tf.ones([5, 2]), name="table"), tf.Variable(1.0, name="unused")

    def step(factor: float) -> Any:
        with tf.GradientTape() as tape:
            loss = optimizer.get_scaled_loss(tf.reduce_sum(tf.gather(table, [1, 1, 3])) * factor)
        gradients = optimizer.get_unscaled_gradients(tape.gradient(loss, [table, unused]))
        optimizer.apply_gradients(zip(gradients, [table, unused], strict=True))
        return gradients

    sparse, none = step(1.0)
    assert isinstance(sparse, tf.IndexedSlices)
    assert none is None
    expected = [[1, 1], [-1, -1], [1, 1], [0, 0], [1, 1]]
    assert table.numpy().tolist() == expected
    step(INF)
    assert table.numpy().tolist() == expected
    assert optimizer.offending_variables == [("table:0", "Inf")]


def test_large_finite_gradients_are_not_clipped_to_nan(style: str) -> None:
    optimizer, v = one_variable(style, global_clipnorm=1.0, loss_scale=1)
    optimizer.minimize(lambda: tf.reduce_sum(v) * 1e30, [v])
    assert v.numpy().tolist() == [2.0, 3.0]
    assert optimizer.skipped_steps == 1


def test_a_fixed_scale_skips_too_and_stays(style: str) -> None:
    optimizer, v = one_variable(style, loss_scale=mixdown.FixedLossScale(8))
    optimizer.minimize(lambda: tf.reduce_sum(v) * NAN, [v])
    assert v.numpy().tolist() == [2.0, 3.0]
    assert (float(optimizer.loss_scale), optimizer.dynamic, optimizer.dynamic_counter) == (8.0, False, None)
    assert (optimizer.initial_scale, optimizer.dynamic_growth_steps, optimizer.skipped_steps) == (8.0, None, 1)


def test_a_loss_scale_object_is_used_as_it_is(style: str) -> None:
    scale = mixdown.DynamicLossScale(64.0, 2, 4.0)
    optimizer, v = one_variable(style, loss_scale=scale)
    for _ in range(2):
        optimizer.minimize(lambda: tf.reduce_sum(v), [v])
    assert float(scale()) == float(optimizer.loss_scale) == 256.0
    assert (optimizer.dynamic, int(optimizer.dynamic_counter), optimizer.dynamic_growth_steps) == (True, 0, 2)


BOTH = ("iterations", "learning_rate", "lr", "clipnorm", "global_clipnorm", "clipvalue")
NEW = ("update_step", "aggregate_gradients", "exclude_from_weight_decay")
SLOTS = ("get_slot", "get_slot_names", "add_slot", "_restore_slot_variable", "_create_or_restore_slot_variable")
LEGACY = (*SLOTS, "_get_hyper", "_set_hyper", "_aggregate_gradients")
OVERRIDDEN = [
    *[(style, name) for style in STYLES for name in BOTH],
    *[("new", name) for name in NEW],
    *[("legacy", name) for name in LEGACY],
]


@pytest.mark.parametrize(("style", "name"), OVERRIDDEN)
def test_what_an_inner_class_overrides_is_what_counts(style: str, name: str) -> None:
    kind = type("Mine", (type(bare(style)),), {})
    optimizer = wrapped(kind())
    setattr(kind, name, property(lambda _: "theirs"))
    optimizer.inner_optimizer.__dict__.pop(name, None)
    assert getattr(optimizer, name) == "theirs"


def test_what_is_excluded_from_weight_decay_is_left_alone() -> None:
    optimizer = wrapped(bare("new", "SGD", learning_rate=0.5, weight_decay=0.5))
    kept, decayed = tf.Variable(4.0, name="kept"), tf.Variable(4.0, name="decayed")
    optimizer.exclude_from_weight_decay(var_names=["kept"])
    optimizer.minimize(lambda: 0.0 * (kept + decayed), [kept, decayed])
    assert (kept.numpy(), decayed.numpy()) == (4.0, 3.0)


def test_slots_and_weights_are_the_inner_optimizers_and_then_the_scales() -> None:
    optimizer = wrapped(bare("legacy"))
    net = compiled(optimizer)
    fit(net, range(2))
    inner, kernel = optimizer.inner_optimizer, net.trainable_variables[0]
    assert optimizer.get_slot_names() == ["m", "v"]
    assert optimizer.get_slot(kernel, "m") is inner.get_slot(kernel, "m")
    assert [id(each) for each in optimizer.variables()] == [id(each) for each in optimizer.weights]
    assert [id(each) for each in optimizer.weights[: len(inner.weights)]] == [id(each) for each in inner.weights]
    assert len(optimizer.get_weights()) == len(inner.weights) + 9


@pytest.mark.parametrize("with_scale", [True, False])
def test_weights_can_be_set_with_and_without_those_of_the_scale(style: str, *, with_scale: bool) -> None:
    optimizer, other = wrapped(bare(style)), wrapped(bare(style))
    net, twin = compiled(optimizer), compiled(other)
    fit(net, range(6), bad=(2,))
    fit(twin, range(1))
    source = optimizer if with_scale else optimizer.inner_optimizer
    variables = source.variables() if callable(source.variables) else source.variables
    other.set_weights([each.numpy() for each in variables])
    assert everything_of(optimizer, net)[len(net.variables) :] == everything_of(other, twin)[len(twin.variables) :]
    assert other.skipped_steps == (1 if with_scale else 0)


def test_the_mixed_float16_policy_does_not_scale_twice(style: str) -> None:
    tf_keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        optimizer = wrapped(bare(style, "SGD"), 2.0**10)
        net, own = (
            compiled(optimizer),
            tf_keras.mixed_precision.LossScaleOptimizer(bare(style, "SGD"), dynamic=False, initial_scale=2.0**10),
        )
        peer = compiled(own)
        assert net.optimizer is optimizer
        fit(net, range(4))
        fit(peer, range(4))
        assert weights_of(net) == weights_of(peer)
        assert optimizer.skipped_steps == 0
    finally:
        tf_keras.mixed_precision.set_global_policy("float32")


def test_fit_runs_eagerly_too(style: str) -> None:
    optimizer = wrapped(bare(style))
    net, plain = compiled(optimizer, run_eagerly=True), compiled(bare(style), run_eagerly=True)
    fit(net, range(4), bad=(1,))
    fit(plain, range(1))
    fit(plain, range(2, 4))
    assert weights_of(net) == weights_of(plain)


def test_a_constraint_holds_and_a_skip_does_not_touch_it(style: str) -> None:
    optimizer = wrapped(bare(style, "SGD", learning_rate=0.5))
    v = tf.Variable([3.0], constraint=tf_keras.constraints.NonNeg())
    for factor, expected in ((2.0, 2.0), (NAN, 2.0), (9.0, 0.0)):
        optimizer.minimize(lambda factor=factor: tf.reduce_sum(v) * factor, [v])
        assert v.numpy().tolist() == [expected]


def test_legacy_steps_run_in_a_v1_graph() -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.compat.v1.placeholder(tf.float32, [])
        v = tf.compat.v1.get_variable("v", initializer=2.0, use_resource=True)
        optimizer = wrapped(bare("legacy", "SGD", learning_rate=0.5))
        gradients = optimizer.get_gradients(v * x, [v])
        train = optimizer.apply_gradients(zip(gradients, [v], strict=True))
        assert isinstance(train, tf.Operation)
        session.run(tf.compat.v1.global_variables_initializer())
        for factor, expected in ((1.0, 1.5), (NAN, 1.5), (2.0, 0.5)):
            session.run(train, {x: factor})
            assert session.run(v) == expected
        assert optimizer.account(session).skipped_steps == 1
        assert session.run(optimizer.iterations) == 2


def test_minimize_takes_a_list_of_variables_that_the_loss_has_yet_to_make(style: str) -> None:
    optimizer, net = wrapped(bare(style, "SGD", learning_rate=1.0)), tf_keras.Sequential([tf_keras.layers.Dense(1)])
    optimizer.minimize(lambda: tf.reduce_sum(net(tf.ones([1, 1]))), lambda: net.trainable_variables)
    assert net.get_weights()[1].tolist() == [-1.0]
