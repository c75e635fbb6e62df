"""Every refusal of the v1 optimizer, and what it says when steps are skipped again and again."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from mixdown.errors import LossScaleError, LossScaleWarning
from mixdown.tensorflow.loss_scaling.optimizers.v1 import MixedPrecisionLossScaleOptimizer

# Many of these tests hand in gradients of their own making, of no loss at all.
pytestmark = pytest.mark.filterwarnings("ignore:Gradients were applied of a loss")

v1 = tf.compat.v1
NAN = tf.constant(np.nan)


def sgd() -> Any:
    return v1.train.GradientDescentOptimizer(0.1)


def wrapped(**options: Any) -> MixedPrecisionLossScaleOptimizer:
    return MixedPrecisionLossScaleOptimizer(sgd(), "dynamic", **options)


def tensorflows_own() -> Any:
    return v1.mixed_precision.MixedPrecisionLossScaleOptimizer(sgd(), "dynamic")


REFUSALS = [
    (
        lambda: MixedPrecisionLossScaleOptimizer("sgd", 1),
        ValueError,
        r"^\"opt\" must be an instance of Optimizer \(tf\.compat\.v1\.train\), but got: 'sgd' of type str\. For Keras",
    ),
    (
        lambda: MixedPrecisionLossScaleOptimizer(sgd(), None),
        ValueError,
        r"^loss_scale cannot be None\. Pass a number, \"dynamic",
    ),
    (
        lambda: MixedPrecisionLossScaleOptimizer(sgd(), "big"),
        ValueError,
        r"^loss_scale must be a number, \"dynamic\" or",
    ),
    (lambda: MixedPrecisionLossScaleOptimizer(sgd(), 0.5), ValueError, r"^FixedLossScale needs a scale of at least 1"),
    (
        lambda: MixedPrecisionLossScaleOptimizer(wrapped(), 2),
        ValueError,
        r"^\"opt\" must not already be an instance of a MixedPrecisionLossScaleOptimizer\. A second one .*: pass the",
    ),
    (lambda: MixedPrecisionLossScaleOptimizer(tensorflows_own(), 2), ValueError, r"must not already be"),
    (lambda: wrapped(skip_limit=0), ValueError, r"^skip_limit must be at least 1, got 0\.$"),
    (
        lambda: wrapped().apply_gradients([]),
        ValueError,
        r"^No gradients provided .*: no variables given\. Does the loss",
    ),
    (
        lambda: wrapped().apply_gradients([(None, tf.Variable(1.0, name="lonely"))]),
        ValueError,
        r"^No gradients provided for any variable: lonely:0\. Does the loss depend on them\?$",
    ),
]


@pytest.mark.parametrize(("call", "kind", "message"), REFUSALS)
def test_refusal(call: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()


@pytest.mark.parametrize("hook", ["_apply_dense", "_apply_sparse", "_resource_apply_dense", "_resource_apply_sparse"])
def test_per_variable_hooks_refuse(hook: str) -> None:
    with pytest.raises(RuntimeError, match=r"applies nothing variable by variable: .* Call apply_gradients\(\)\.$"):
        getattr(wrapped(), hook)(NAN, tf.Variable(1.0))


def test_cross_replica_context_is_refused() -> None:
    with (
        tf.distribute.OneDeviceStrategy("/cpu:0").scope(),
        pytest.raises(
            RuntimeError, match=r"^apply_gradients\(\) must be called in a replica context, .*\.run"
        ) as found,
    ):
        wrapped().apply_gradients([(tf.constant(1.0), tf.Variable(1.0))])
    assert isinstance(found.value, ValueError)  # which is what TensorFlow's own class raises


def test_a_step_without_gradients_is_not_counted() -> None:
    optimizer = wrapped()
    with pytest.raises(ValueError, match="No gradients"):
        optimizer.apply_gradients([(None, tf.Variable(1.0))])
    assert optimizer.steps == 0


TROUBLE = r"3 steps in a row were skipped because gradients were not finite: w:0 \(NaN\)\. That is skip_limit=3"


def test_the_limit_of_skips_raises_in_eager_after_counting_the_step() -> None:
    optimizer, w = wrapped(skip_limit=3), tf.Variable(1.0, name="w")
    for _ in range(2):
        optimizer.apply_gradients([(NAN, w)])
    with pytest.raises(LossScaleError, match=TROUBLE):
        optimizer.apply_gradients([(NAN, w)])
    assert (optimizer.skipped_steps, float(w)) == (3, 1.0)


def test_a_good_step_starts_the_count_again() -> None:
    optimizer, w = wrapped(skip_limit=3), tf.Variable(1.0)
    for gradient in (NAN, NAN, tf.constant(1.0), NAN, NAN):
        optimizer.apply_gradients([(gradient, w)])
    assert optimizer.skips_in_a_row == 2


def test_the_limit_of_skips_stops_a_function_with_the_same_text() -> None:
    optimizer, w = wrapped(skip_limit=3), tf.Variable(1.0, name="w")
    step = tf.function(lambda: optimizer.apply_gradients([(NAN, w)]) and None, autograph=False)
    step()
    step()
    with pytest.raises(tf.errors.UnknownError, match=f"LossScaleError: {TROUBLE}"):
        step()
    with pytest.raises(LossScaleError, match=TROUBLE):
        optimizer.check_skips()


def test_the_limit_of_skips_stops_a_session_with_the_same_text() -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        optimizer, w = wrapped(skip_limit=3), v1.get_variable("w", initializer=1.0)
        operation = optimizer.apply_gradients([(tf.constant(np.nan), w)])
        session.run(v1.global_variables_initializer())
        session.run(operation)
        session.run(operation)
        with pytest.raises(tf.errors.UnknownError, match=f"LossScaleError: {TROUBLE}"):
            session.run(operation)
        with pytest.raises(LossScaleError, match=TROUBLE):
            optimizer.check_skips(session)


def test_under_xla_the_limit_is_raised_by_check_skips() -> None:
    optimizer, w = wrapped(skip_limit=3), tf.Variable(1.0, name="w")
    step = tf.function(lambda: optimizer.apply_gradients([(NAN, w)]) and None, autograph=False, jit_compile=True)
    for _ in range(3):
        step()
    with pytest.raises(LossScaleError, match=TROUBLE):
        optimizer.check_skips()


@pytest.mark.parametrize("form", ["eager", "function"])
def test_without_a_limit_there_is_one_warning_at_50(form: str) -> None:
    optimizer, w = wrapped(), tf.Variable(1.0, name="w")

    def call() -> None:
        optimizer.apply_gradients([(NAN, w)])

    step = call if form == "eager" else tf.function(call, autograph=False)
    for _ in range(49):
        step()
    with pytest.warns(
        LossScaleWarning, match=r"^50 steps in a row were skipped .*: w:0 \(NaN\)\. Likely no loss scale"
    ):
        step()
    for _ in range(5):
        step()
