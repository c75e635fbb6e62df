"""Whatever the inner optimizer can do, it still does, on unscaled gradients and on applied steps only."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tests.tensorflow.loss_scaling.optimizers.keras3_training import adam, compiled, contents, fit, model, wrapped

import mixdown

SETTINGS: dict[str, dict[str, Any]] = {
    "clipnorm": {"clipnorm": 0.01},
    "global_clipnorm": {"global_clipnorm": 0.01},
    "clipvalue": {"clipvalue": 0.001},
    "weight decay": {"weight_decay": 0.1},
    "moving average": {"use_ema": True, "ema_momentum": 0.5},
    "moving average, written back": {"use_ema": True, "ema_momentum": 0.5, "ema_overwrite_frequency": 2},
    "accumulation": {"gradient_accumulation_steps": 2},
    "accumulation and clipping": {"gradient_accumulation_steps": 3, "global_clipnorm": 0.01},
}

QUICK = {"global_clipnorm", "weight decay", "moving average, written back", "accumulation and clipping"}


@pytest.mark.parametrize(
    "setting", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in SETTINGS]
)
def test_settings_of_the_inner_optimizer_see_only_good_steps(setting: str) -> None:
    net, plain = (compiled(wrap(adam(**SETTINGS[setting]))) for wrap in (wrapped, bare))
    fit(net, range(8), bad=[1, 4])
    fit(plain, [0, 2, 3, 5, 6, 7])
    assert contents(net.weights) == contents(plain.weights)
    assert contents(net.optimizer.inner_optimizer.variables) == contents(plain.optimizer.variables)


def test_settings_hold_in_a_compiled_step() -> None:
    settings = {"global_clipnorm": 0.01, "weight_decay": 0.1, "use_ema": True}
    net, plain = (compiled(wrap(adam(**settings)), jit_compile=True) for wrap in (wrapped, bare))
    fit(net, range(5), bad=[1])
    fit(plain, [0, 2, 3, 4])
    assert contents(net.weights) == contents(plain.weights)


def test_a_bad_micro_batch_is_dropped_and_the_window_waits_for_another() -> None:
    weight = keras.Variable([0.0])
    optimizer = wrapped(keras.optimizers.SGD(1.0, gradient_accumulation_steps=2), 4)
    seen = []
    for gradient in (4.0, np.nan, np.inf, 12.0):
        optimizer.apply([tf.constant([gradient])], [weight])
        seen.append(weight.numpy().item())
    assert seen == [0.0, 0.0, 0.0, -2.0]


def test_a_schedule_advances_on_applied_steps_only() -> None:
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay([0, 1], [1.0, 0.5, 0.25])
    weight, optimizer = keras.Variable([0.0]), wrapped(keras.optimizers.SGD(schedule), 1)
    rates = []
    for gradient in (1.0, np.nan, np.nan, 1.0, 1.0):
        rates.append(float(optimizer.learning_rate))
        optimizer.apply([tf.constant([gradient])], [weight])
    assert rates == [1.0, 0.5, 0.5, 0.5, 0.25]
    assert weight.numpy().item() == -1.75


def test_the_learning_rate_is_the_inner_one() -> None:
    inner = adam(learning_rate=0.5)
    optimizer = wrapped(inner)
    assert float(optimizer.learning_rate) == 0.5
    optimizer.learning_rate = 0.25
    assert float(inner.learning_rate) == 0.25


def test_callbacks_find_the_learning_rate() -> None:
    net = compiled(wrapped(adam(learning_rate=0.5)))
    data = np.zeros([4, 4]), np.zeros([4, 1])
    net.fit(*data, verbose=0, callbacks=[keras.callbacks.LearningRateScheduler(lambda _, rate: rate / 2)])
    assert float(net.optimizer.inner_optimizer.learning_rate) == 0.25


def test_exclusion_from_weight_decay_reaches_the_inner_optimizer() -> None:
    net, plain = model(), model()
    ours, theirs = wrapped(adam(weight_decay=0.1), 1), adam(weight_decay=0.1)
    for each, optimizer in ((net, ours), (plain, theirs)):
        optimizer.exclude_from_weight_decay(var_names=["kernel"])
        optimizer.apply([tf.ones_like(weight) for weight in each.weights], each.trainable_variables)
    assert contents(net.weights) == contents(plain.weights)


def test_a_multi_optimizer_can_be_inside() -> None:
    net, plain = (compiled(wrap(two_optimizers())) for wrap in (wrapped, bare))
    fit(net, range(6), bad=[1, 4])
    fit(plain, [0, 2, 3, 5])
    assert contents(net.weights) == contents(plain.weights)


def test_a_multi_optimizer_refuses_to_hold_one() -> None:
    outer = keras.optimizers.MultiOptimizer(lambda _: wrapped())
    with pytest.raises(ValueError, match="LossScaleOptimizer cannot be used inside"):
        outer.build(model().trainable_variables)


def two_optimizers() -> Any:
    pair = adam(), keras.optimizers.SGD(0.1)
    return keras.optimizers.MultiOptimizer(lambda variable: pair["bias" in variable.path])


def test_compile_under_mixed_float16_does_not_wrap_again() -> None:
    optimizer = wrapped(loss_scale=mixdown.DynamicLossScale(16))
    keras.config.set_dtype_policy("mixed_float16")
    try:
        net = compiled(optimizer)
        fit(net, range(3), bad=[1])
    finally:
        keras.config.set_dtype_policy("float32")
    assert net.optimizer is optimizer
    assert (optimizer.loss_scale, optimizer.skipped_steps, int(optimizer.iterations)) == (8.0, 1, 2)


def test_sparse_gradients_stay_sparse() -> None:
    table, plain = keras.Variable(np.ones([5, 2], "float32")), keras.Variable(np.ones([5, 2], "float32"))
    ours, theirs = wrapped(keras.optimizers.SGD(0.1), 8), keras.optimizers.SGD(0.1)
    for value in (1.0, np.nan, 2.0):
        ours.apply([slices(8 * value)], [table])
    for value in (1.0, 2.0):
        theirs.apply([slices(value)], [plain])
    assert contents([table]) == contents([plain])
    assert isinstance(ours.get_unscaled_gradients([slices(8.0)])[0], tf.IndexedSlices)


def slices(value: float) -> Any:
    return tf.IndexedSlices(tf.fill([2, 2], value), tf.constant([1, 3]), tf.constant([5, 2]))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_gradients_of_any_float_dtype_are_unscaled_by_scales_they_cannot_hold(dtype: str) -> None:
    weight = keras.Variable([0.0], dtype=dtype)
    optimizer = wrapped(keras.optimizers.SGD(1.0), mixdown.DynamicLossScale(2.0**20))
    optimizer.apply([tf.cast([2.0**10], dtype)], [weight])
    assert weight.numpy().astype("float64").item() == -(2.0**-10)


def test_a_float16_loss_is_scaled_beyond_float16() -> None:
    assert wrapped(loss_scale=2.0**20).scale_loss(tf.constant(1.0, tf.float16)).numpy() == 2.0**20


def test_a_variable_without_a_gradient_is_left_alone() -> None:
    first, second = keras.Variable([0.0], name="first"), keras.Variable([0.0], name="second")
    optimizer = wrapped(keras.optimizers.SGD(1.0), 1)
    with pytest.warns(UserWarning, match="Gradients do not exist"):
        optimizer.apply([None, tf.constant([1.0])], [first, second])
    optimizer.apply([None, tf.constant([np.nan])], [first, second])
    assert (first.numpy().item(), second.numpy().item()) == (0.0, -1.0)
    assert optimizer.offending_variables == [("second", "NaN")]


def test_a_gradient_that_replaces_its_variable_is_not_unscaled() -> None:
    weight = keras.Variable([0.0])
    weight.overwrite_with_gradient = True
    other = keras.Variable([0.0])
    wrapped(keras.optimizers.SGD(1.0), 8).apply([tf.constant([3.0]), tf.constant([8.0])], [weight, other])
    assert (weight.numpy().item(), other.numpy().item()) == (3.0, -1.0)


def bare(inner: Any) -> Any:
    return inner
