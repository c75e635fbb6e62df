"""What is refused, what is said when steps are skipped again and again, and when."""

import subprocess
import sys
import warnings
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tests.tensorflow.loss_scaling.optimizers.keras3_training import NAMES, adam, compiled, fit, model, wrapped

import mixdown
from mixdown.errors import LossScaleWarning


class Doubling(mixdown.LossScale):
    """A loss scale of a user's own."""

    def __call__(self) -> Any:
        return tf.constant(2.0)

    def update(self, grads: Any) -> Any:
        return None, bool(grads)

    def get_config(self) -> dict[str, Any]:
        return {}


def in_cross_replica_context() -> None:
    with tf.distribute.OneDeviceStrategy("/cpu:0").scope():
        wrapped().apply([tf.constant([1.0])], [keras.Variable([0.0])])


def with_unknown_variable() -> None:
    optimizer = wrapped()
    optimizer.build([keras.Variable([0.0])])
    optimizer.apply([tf.constant([1.0])], [keras.Variable([0.0], name="stranger")])


def v1_optimizer() -> Any:
    return tf.compat.v1.train.GradientDescentOptimizer(0.1)


REFUSALS: dict[str, tuple[Any, type[Exception], str]] = {
    "ours again": (lambda: wrapped(wrapped()), ValueError, "cannot wrap Keras3LossScaleOptimizer, which scales"),
    "Keras's own": (
        lambda: wrapped(keras.optimizers.LossScaleOptimizer(adam())),
        ValueError,
        "cannot wrap LossScaleOptimizer, which scales the loss already. Pass the optimizer inside it",
    ),
    "ours on ours, directly": (
        lambda: type(wrapped())(wrapped()),
        ValueError,
        "cannot wrap Keras3LossScaleOptimizer, which scales the loss already. Pass its inner_optimizer",
    ),
    "not an optimizer, directly": (
        lambda: type(wrapped())("adam"),
        TypeError,
        "needs a keras.optimizers.Optimizer, got 'adam' of type str",
    ),
    "a factor of its own": (
        lambda: wrapped(adam(name="fast", loss_scale_factor=8.0)),
        ValueError,
        "cannot wrap fast, which scales the loss by loss_scale_factor=8.0 itself. Drop",
    ),
    "v1": (lambda: wrapped(v1_optimizer()), TypeError, "v1 optimizer GradientDescentOptimizer. Use mixdown.MixedPrec"),
    "wrapped v1": (
        lambda: wrapped(mixdown.MixedPrecisionLossScaleOptimizer(v1_optimizer(), 8)),
        ValueError,
        "cannot wrap MixedPrecisionLossScaleOptimizer, which scales the loss already",
    ),
    "a class": (lambda: wrapped(keras.optimizers.Adam), TypeError, r"got the class Adam. Pass an instance: Adam\(\)"),
    "a string": (lambda: wrapped("adam"), TypeError, r"got the string 'adam'. Pass keras.optimizers.get\('adam'\)"),
    "anything else": (
        lambda: wrapped([1]),
        TypeError,
        r"needs a Keras 3 or tf_keras optimizer, but got \[1\] of type list",
    ),
    "another word": (lambda: wrapped(loss_scale="static"), ValueError, "\"dynamic\" or a LossScale, got 'static'"),
    "no scale": (lambda: wrapped(loss_scale=None), ValueError, "loss_scale cannot be None"),
    "true": (lambda: wrapped(loss_scale=True), TypeError, "got True of type bool"),
    "another LossScale": (lambda: wrapped(loss_scale=Doubling()), TypeError, "cannot call another kind of LossScale"),
    "zero": (lambda: wrapped(loss_scale=0), ValueError, "loss_scale must be finite and greater than 0, got 0"),
    "nan": (lambda: wrapped(loss_scale=np.float32("nan")), ValueError, "loss_scale must be finite"),
    "below one": (
        lambda: wrapped(loss_scale=0.5),
        ValueError,
        r"at least 1, got 0.5. Use DynamicLossScale\(0.5, floor",
    ),
    "limit of zero": (lambda: wrapped(skip_limit=0), ValueError, "skip_limit must be at least 1, got 0"),
    "no variables": (lambda: wrapped().apply([1.0]), ValueError, "without variables before the optimizer knew any"),
    "unknown variable": (with_unknown_variable, ValueError, "stranger is not one of the variables"),
    "cross-replica": (in_cross_replica_context, ValueError, "must be called in a replica context, got cross-replica"),
    "minimize a tensor": (
        lambda: wrapped().minimize(tf.constant(1.0), [keras.Variable(1.0)]),
        ValueError,
        "minimize needs a callable loss, or the tape=",
    ),
    "stateless": (lambda: wrapped().stateless_apply([], [], []), ValueError, "for backends such as JAX; on TensorFlow"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_is_refused_and_how(case: str) -> None:
    action, error, text = REFUSALS[case]
    with pytest.raises(error, match=text):
        action()


def test_a_refused_optimizer_is_left_as_it_was() -> None:
    inner = adam(loss_scale_factor=8.0)
    with pytest.raises(ValueError, match="loss_scale_factor"):
        wrapped(inner)
    assert inner.loss_scale_factor == 8.0


@pytest.mark.parametrize("library", ["keras", "tf_keras"])
def test_a_library_is_not_imported_for_the_sake_of_another(library: str) -> None:
    other = {"keras": "tf_keras", "tf_keras": "keras"}[library]
    script = f"""
import sys, tensorflow as tf, {library}, mixdown
before = "{other}" in sys.modules
mixdown.LossScaleOptimizer({library}.optimizers.Adam())
assert ("{other}" in sys.modules) == before
"""
    run = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stderr[-2000:]


def test_the_limit_raises_in_the_step_when_python_runs_it() -> None:
    weight, optimizer = keras.Variable([0.0], name="w"), wrapped(skip_limit=3)
    bad = [tf.constant([np.nan])], [weight]
    optimizer.apply(*bad)
    optimizer.apply(*bad)
    with pytest.raises(mixdown.LossScaleError, match=r"3 steps in a row were skipped.* w \(NaN\).*skip_limit=3"):
        optimizer.apply(*bad)
    assert optimizer.skipped_steps == 3


def test_the_limit_stops_fit_in_a_graph() -> None:
    net = compiled(wrapped(skip_limit=3))
    with pytest.raises(tf.errors.UnknownError, match=rf"LossScaleError: 3 steps in a row.*{NAMES[0]} \(NaN\)"):
        fit(net, range(9), bad=range(2, 9))
    assert (net.optimizer.skips_in_a_row, net.optimizer.last_skipped_step) == (3, 4)


def test_the_limit_is_heard_at_the_end_of_a_compiled_fit() -> None:
    net = compiled(wrapped(skip_limit=3), jit_compile=True)
    with pytest.raises(mixdown.LossScaleError, match="7 steps in a row were skipped"):
        fit(net, range(9), bad=range(2, 9))


def test_the_limit_of_a_compiled_step_is_heard_at_the_next_call_from_python() -> None:
    weight, optimizer = keras.Variable([0.0]), wrapped(skip_limit=2)
    optimizer.build([weight])
    step = tf.function(lambda: optimizer.apply([tf.constant([np.nan])]), jit_compile=True)
    for _ in range(3):
        step()
    for contact in (optimizer.check_skips, lambda: optimizer.scale_loss(1.0), lambda: optimizer.apply([0.0], [weight])):
        with pytest.raises(mixdown.LossScaleError, match="3 steps in a row were skipped"):
            contact()
    assert optimizer.skipped_steps == 3


def test_skips_that_do_not_follow_each_other_are_no_alarm() -> None:
    weight, optimizer = keras.Variable([0.0]), wrapped(skip_limit=2)
    for gradient in (np.nan, 1.0) * 4:
        optimizer.apply([tf.constant([gradient])], [weight])
    assert optimizer.skipped_steps == 4


@pytest.mark.parametrize("jit", [True, False])
def test_without_a_limit_one_warning_comes_at_fifty(jit: bool) -> None:  # noqa: FBT001 - a parameter
    weight, optimizer = keras.Variable([0.0], name="w"), wrapped()
    optimizer.build([weight])
    step = tf.function(lambda: optimizer.apply([tf.constant([np.inf])]), jit_compile=jit)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LossScaleWarning)
        for _ in range(60):
            step()
        optimizer.check_skips()
        optimizer.check_skips()
    texts = [str(each.message) for each in caught if each.category is LossScaleWarning]
    assert len(texts) == 1
    assert "50 steps in a row were skipped because gradients were not finite: w (Inf)" in texts[0]


def test_nothing_is_said_of_a_run_without_skips() -> None:
    optimizer = wrapped(skip_limit=1)
    fit(compiled(optimizer), range(3))
    optimizer.check_skips()
    assert len(model().trainable_variables) == len(optimizer._trainable_variables)
