"""What a step of the Keras 3 loss-scale optimizer does, and what a skipped one leaves alone."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tests.tensorflow.loss_scaling.optimizers.keras3_training import (
    NAMES,
    adam,
    compiled,
    contents,
    fit,
    model,
    plain_run,
    shard,
    squared_error,
    wrapped,
)

import mixdown
from mixdown.errors import LossScaleWarning
from mixdown.keras3 import functional
from mixdown.scaling import Law, StepCounts, after, counted, start
from mixdown.tensorflow.loss_scaling.optimizers import keras3_tensorflow

MODES: dict[str, dict[str, Any]] = {
    "graph": {"jit_compile": False},
    "jit": {"jit_compile": True},
    "eager": {"run_eagerly": True},
    "several steps a call": {"jit_compile": False, "steps_per_execution": 3},
}


def test_a_step_finds_the_same_functions_on_every_backend() -> None:
    assert functional.__all__ == keras3_tensorflow.__all__


@pytest.fixture(scope="module", params=MODES)
def trained(request: pytest.FixtureRequest) -> Any:
    """Two models fit in one mode: one scaled, with three bad steps; one plain, without them."""
    net, plain = (compiled(optimizer, **MODES[request.param]) for optimizer in (wrapped(), adam()))
    fit(net, range(9), bad=[2, 5, 6])
    fit(plain, [0, 1, 3, 4, 7, 8])
    return net, plain


def test_fit_with_bad_steps_equals_fit_without_them(trained: Any) -> None:
    net, plain = trained
    assert contents(net.weights) == contents(plain.weights)
    assert contents(net.optimizer.inner_optimizer.variables) == contents(plain.optimizer.variables)


def test_the_books_say_what_happened(trained: Any) -> None:
    optimizer = trained[0].optimizer
    assert (optimizer.skipped_steps, optimizer.last_skipped_step, optimizer.skips_in_a_row) == (3, 6, 0)
    assert (optimizer.good_steps, optimizer.loss_scale, int(optimizer.iterations)) == (2, 2.0**12, 6)
    assert set(optimizer.offending_variables) <= {(name, "NaN") for name in NAMES}
    assert (NAMES[0], "NaN") in optimizer.offending_variables


def test_the_books_are_blank_before_the_first_step() -> None:
    optimizer = wrapped()
    assert (optimizer.skipped_steps, optimizer.last_skipped_step, optimizer.skips_in_a_row) == (0, None, 0)
    assert (optimizer.good_steps, optimizer.loss_scale, optimizer.offending_variables) == (0, 2.0**15, [])


def test_the_books_can_be_read_while_a_graph_is_traced() -> None:
    optimizer = wrapped()
    assert tf.function(lambda: optimizer.loss_scale)().numpy() == 2.0**15
    assert tf.function(lambda: optimizer.last_skipped_step)().numpy() == -1


@pytest.mark.parametrize("style", ["keras 3", "keras 2", "keras 2, processed", "minimize"])
@pytest.mark.parametrize("traced", [True, False])
def test_loops_of_ones_own_equal_the_plain_run(style: str, traced: bool) -> None:  # noqa: FBT001 - a parameter
    net, optimizer = model(), wrapped()
    step = tf.function(training_step(net, optimizer, style)) if traced else training_step(net, optimizer, style)
    for number in range(6):
        step(*map(tf.constant, shard(number, bad=number in (1, 4))))
    assert contents(net.weights) == plain_run([0, 2, 3, 5], traced=traced)
    assert optimizer.skipped_steps == 2


def training_step(net: Any, optimizer: Any, style: str) -> Any:
    def step(x: Any, y: Any) -> None:
        if style == "minimize":
            optimizer.minimize(lambda: squared_error(net, x, y), net.trainable_variables)
            return
        with tf.GradientTape() as tape:
            scale = optimizer.scale_loss if style == "keras 3" else optimizer.get_scaled_loss
            loss = scale(squared_error(net, x, y))
        gradients = tape.gradient(loss, net.trainable_variables)
        if style.startswith("keras 2"):
            gradients = optimizer.get_unscaled_gradients(gradients)
        if style.endswith("processed"):
            gradients = [each * 1.0 for each in gradients]
        optimizer.apply_gradients(zip(gradients, net.trainable_variables, strict=True))

    return step


def test_gradients_are_divided_if_the_loss_was_scaled_and_they_were_not_unscaled() -> None:
    weight, optimizer = one_weight()
    scaled = [tf.constant([2.0**15])]
    unscaled = optimizer.get_unscaled_gradients(scaled)
    assert unscaled[0].numpy() == [1.0]
    for gradients in (unscaled, unscaled):
        optimizer.apply(gradients, [weight])
    optimizer.scale_loss(1.0)
    optimizer.apply(scaled, [weight])
    assert weight.numpy() == [-3.0]


@pytest.mark.parametrize("traced", [True, False])
def test_gradients_of_a_loss_that_was_never_scaled_are_not_divided(traced: bool) -> None:  # noqa: FBT001 - a parameter
    weight, optimizer = keras.Variable([0.0]), mixdown.LossScaleOptimizer(keras.optimizers.SGD(1.0))
    optimizer.build([weight])
    step: Any = tf.function(optimizer.apply) if traced else optimizer.apply
    with pytest.warns(mixdown.MixdownWarning, match="never scaled: they are not divided by the loss scale"):
        step([tf.constant([1.0])])
    assert weight.numpy() == [-1.0]


def test_the_loss_may_be_scaled_in_one_function_and_the_gradients_applied_in_another() -> None:
    weight, optimizer = one_weight()
    optimizer.build([weight])

    @tf.function
    def gradient() -> Any:
        with tf.GradientTape() as tape:
            loss = optimizer.scale_loss(tf.reduce_sum(3.0 * weight))
        return tape.gradient(loss, weight.value)

    apply = tf.function(lambda gradient: optimizer.apply([gradient]))
    for _ in range(2):
        apply(gradient())
    assert weight.numpy() == [-6.0]


def test_a_callable_loss_gives_a_callable() -> None:
    _, optimizer = one_weight()
    assert optimizer.get_scaled_loss(lambda: tf.constant(2.0))().numpy() == 2.0**16


def test_apply_gradients_gives_the_steps_applied() -> None:
    weight, optimizer = one_weight()
    assert int(optimizer.apply_gradients([(tf.constant([1.0]), weight)])) == 1
    assert int(optimizer.apply_gradients([(tf.constant([np.inf]), weight)])) == 1


@pytest.mark.parametrize(
    ("held", "said"), [([np.inf], "Inf"), ([-np.inf], "Inf"), ([np.nan], "NaN"), ([np.nan, np.inf], "Inf and NaN")]
)
def test_inf_and_nan_are_told_apart(held: list[float], said: str) -> None:
    weight = keras.Variable(np.zeros(3, "float32"), name="w")
    optimizer = wrapped(keras.optimizers.SGD(1.0))
    optimizer.apply([tf.constant([1.0] * (3 - len(held)) + held)], [weight])
    assert optimizer.offending_variables == [("w", said)]
    assert (weight.numpy() == 0).all()


def test_the_first_eight_offenders_are_named_in_the_order_of_the_variables() -> None:
    weights = [keras.Variable([0.0], name=f"w{at}") for at in range(12)]
    optimizer = wrapped(keras.optimizers.SGD(1.0))
    optimizer.build(weights)
    backwards = [(tf.constant([0.0 if at == 1 else np.inf]), weights[at]) for at in reversed(range(12))]
    optimizer.apply_gradients(backwards)
    assert [name for name, _ in optimizer.offending_variables] == [f"w{at}" for at in (0, 2, 3, 4, 5, 6, 7, 8)]


def test_finite_gradients_whose_sum_overflows_are_applied() -> None:
    weight, optimizer = one_weight(np.zeros(4, "float32"))
    optimizer.apply([tf.fill([4], 2.0**127)], [weight])
    assert optimizer.skipped_steps == 0
    assert (weight.numpy() == -(2.0**112)).all()


def test_a_fixed_scale_stays_and_still_skips() -> None:
    weight, optimizer = one_weight(loss_scale=8)
    for gradient in (16.0, np.nan, 16.0):
        optimizer.apply([tf.constant([gradient])], [weight])
    assert (optimizer.loss_scale, optimizer.skipped_steps, weight.numpy().item()) == (8.0, 1, -4.0)


def test_the_constants_of_a_loss_scale_object_are_used() -> None:
    scale = mixdown.DynamicLossScale(64, increment_period=2, multiplier=4, floor=16, tolerance=2)
    weight, optimizer = one_weight(loss_scale=scale)
    seen = []
    for gradient in (1, 1, np.inf, np.inf, np.inf, np.inf, np.inf, np.inf):
        optimizer.apply([tf.constant([float(gradient)])], [weight])
        seen.append(optimizer.loss_scale)
    assert seen == [64, 256, 256, 64, 64, 16, 16, 16]


def test_two_hundred_bad_steps_then_a_good_one() -> None:
    trace = [np.nan] * 200 + [1.0]
    with pytest.warns(LossScaleWarning, match="50 steps in a row were skipped"):
        assert after_steps(wrapped, trace) == (1.0, -1.0)
    scale, weight = after_steps(keras.optimizers.LossScaleOptimizer, trace)
    assert scale == 0.0
    assert not np.isfinite(weight)


def test_a_hundred_and_thirty_growths() -> None:
    law = mixdown.DynamicLossScale(increment_period=1)
    ours = after_steps(lambda inner: wrapped(inner, law), [1.0] * 130)
    theirs = after_steps(lambda inner: keras.optimizers.LossScaleOptimizer(inner, dynamic_growth_steps=1), [1.0] * 130)
    assert ours == (2.0**127, -130.0)
    assert theirs[0] == np.inf


@pytest.mark.parametrize("jit", [True, False])
def test_the_largest_scale_still_divides_exactly(jit: bool) -> None:  # noqa: FBT001 - a parameter
    weight, optimizer = one_weight(loss_scale=2.0**127)
    optimizer.build([weight])
    tf.function(lambda: optimizer.apply([tf.constant([-(2.0**127)])]), jit_compile=jit)()
    assert weight.numpy().item() == 1.0


@pytest.mark.parametrize(("jit", "steps"), [(True, 70_000), (False, 30_000)])
def test_a_hundred_thousand_random_steps_equal_the_pure_machine(jit: bool, steps: int) -> None:  # noqa: FBT001 - a parameter
    law = Law(increment_period=7, multiplier=3.0, floor=0.25, tolerance=2)
    finite = np.random.default_rng(5).random(steps) < 0.88
    weight, optimizer = one_weight(loss_scale=mixdown.DynamicLossScale(2**15, 7, 3.0, floor=0.25, tolerance=2))
    optimizer.build([weight])

    @tf.function(jit_compile=jit)
    def train(gradients: Any) -> Any:
        scales = tf.TensorArray(tf.float32, size=len(finite))
        for at in tf.range(len(finite)):
            optimizer.apply([gradients[at]])
            scales = scales.write(at, tf.convert_to_tensor(optimizer.dynamic_scale))
        return scales.stack()

    scales = train(tf.constant(np.where(finite, 0.0, np.nan).astype("float32")[:, None])).numpy()
    expected, counts = pure_run(law, finite.tolist())
    np.testing.assert_array_equal(scales, expected)
    assert (optimizer.skipped_steps, optimizer.last_skipped_step) == (counts.skipped_steps, counts.last_skipped_step)
    assert optimizer.skips_in_a_row == counts.skips_in_a_row
    assert int(optimizer.iterations) == finite.sum()


def pure_run(law: Law, finite: list[bool]) -> tuple[Any, Any]:
    """The scale after every step, in float32 as TensorFlow has it, and the books at the end."""
    state, counts, scales = start(law)._replace(scale=np.float32(law.initial)), StepCounts(), []
    for each in finite:
        state = after(law, state, finite=each, where=choose)
        state = state._replace(scale=np.float32(state.scale))
        counts = counted(counts, finite=each, where=choose)
        scales.append(state.scale)
    return np.array(scales), counts


def choose(condition: Any, if_true: Any, if_false: Any) -> Any:
    return if_true if condition else if_false


def one_weight(value: Any = (0.0,), loss_scale: Any = "dynamic") -> tuple[Any, Any]:
    return keras.Variable(np.asarray(value, "float32")), wrapped(keras.optimizers.SGD(1.0), loss_scale)


def after_steps(wrap: Any, gradients: list[float]) -> tuple[float, float]:
    """Scale and weight after steps whose unscaled gradients are given; the scale is the one a step begins with."""
    weight, optimizer = keras.Variable([0.0]), wrap(keras.optimizers.SGD(1.0))
    for each in gradients:
        optimizer.apply([optimizer.scale_loss(tf.constant([each]))], [weight])
    return float(optimizer.dynamic_scale.numpy()), weight.numpy().item()
