"""Sentences of TensorFlow's documents of the graph rewrite and of its v1 optimizer, one test each."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import mixdown
from mixdown.tensorflow.calls import active_policy
from mixdown.tensorflow.runtime.private import loss_scale_wrappers

v1 = tf.compat.v1
TENSORFLOWS = v1.mixed_precision
NAN = float("nan")
CPU_TOO = mixdown.Policy(devices=("GPU", "CPU"))


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    registered = dict(loss_scale_wrappers)
    yield
    active_policy.set_process_policy(None)
    loss_scale_wrappers.clear()
    loss_scale_wrappers.update(registered)


def enable(*arguments: Any) -> Any:
    optimizer = mixdown.enable_mixed_precision_graph_rewrite(*arguments, policy=CPU_TOO)
    if hasattr(optimizer, "usage"):
        optimizer.usage.note_scaled()  # so that nothing warns about it when a test throws it away
    return optimizer


def sgd() -> Any:
    return v1.train.GradientDescentOptimizer(0.5)


OPTIMIZERS = {
    "v1": sgd,
    "keras 3": lambda: keras.optimizers.SGD(0.5),
    "tf_keras": lambda: tf_keras.optimizers.SGD(0.5),
    "tf_keras legacy": lambda: tf_keras.optimizers.legacy.SGD(0.5),
}


def scale_of(optimizer: Any) -> float:
    scale = optimizer.loss_scale
    return float(scale() if callable(scale) else scale)


def scales_of(optimizer: Any, *gradients: float) -> list[float]:
    """The scale at first, and after a step with each of these gradients of the loss itself."""
    weight, scales = tf.Variable(1.0), [scale_of(optimizer)]
    for each in gradients:
        optimizer.minimize(lambda each=each: weight * each, var_list=[weight])
        scales.append(scale_of(optimizer))
    assert float(weight) == 1.0 - 0.5 * np.nansum(gradients)
    return scales


@pytest.mark.parametrize("library", OPTIMIZERS)
def test_loss_scale_may_be_tensorflows_own_fixed_scale(library: str) -> None:
    optimizer = enable(OPTIMIZERS[library](), TENSORFLOWS.FixedLossScale(96))
    assert scales_of(optimizer, NAN, 1.0) == [96.0] * 3
    assert optimizer.skipped_steps == 1


@pytest.mark.parametrize("library", OPTIMIZERS)
def test_loss_scale_may_be_tensorflows_own_dynamic_scale(library: str) -> None:
    optimizer = enable(OPTIMIZERS[library](), TENSORFLOWS.DynamicLossScale(64, 2, 4))
    assert scales_of(optimizer, NAN, 1.0, 1.0) == [64.0, 16.0, 16.0, 64.0]


def test_a_scale_of_tensorflows_that_has_moved_goes_on_where_it_stands() -> None:
    theirs = TENSORFLOWS.DynamicLossScale(64, 2, 4)
    theirs.update([tf.constant(NAN)])
    assert scale_of(enable(sgd(), theirs)) == 16.0


def test_tensorflows_own_scale_is_taken_over_in_a_graph() -> None:
    with tf.Graph().as_default():
        optimizer = mixdown.MixedPrecisionLossScaleOptimizer(sgd(), TENSORFLOWS.DynamicLossScale(64, 2, 4))
        assert optimizer.loss_scale.get_config()["initial_loss_scale"] == 64.0
        assert optimizer.loss_scale.multiplier == 4.0


NO_OPTIMIZERS = {
    "number": (1, "got 1 of type int"),
    "nothing": (None, "got None of type NoneType"),
    "string": ("sgd", r"got the string 'sgd'\. Pass keras\.optimizers\.get\('sgd'\)"),
    "class": (keras.optimizers.SGD, r"got the class SGD\. Pass an instance: SGD\(\)\."),
    "layer": (tf.Module(), "of type Module"),
}


@pytest.mark.parametrize("error", [ValueError, TypeError])
@pytest.mark.parametrize("case", NO_OPTIMIZERS)
def test_what_is_no_optimizer_is_a_value_error_in_tensorflows_words(case: str, error: type[Exception]) -> None:
    wrong, told = NO_OPTIMIZERS[case]
    words = r'^"opt" must be an instance of a tf\.train\.Optimizer or a tf\.keras\.optimizers\.Optimizer, but '
    with pytest.raises(error, match=words + f".*{told}"):
        enable(wrong)


@pytest.mark.parametrize("library", OPTIMIZERS)
def test_no_loss_scale_is_a_value_error_in_tensorflows_words(library: str) -> None:
    with pytest.raises(ValueError, match=r"^loss_scale cannot be None"):
        enable(OPTIMIZERS[library](), None)


class StrangeOptimizer:
    """An optimizer of a library that neither TensorFlow nor mixdown knows."""


class StrangeWrapper(StrangeOptimizer):
    def __init__(self, inner: Any, loss_scale: Any) -> None:
        self.inner, self.loss_scale = inner, loss_scale


def wrap_strangely(inner: Any, loss_scale: Any) -> StrangeWrapper:
    return StrangeWrapper(inner, loss_scale)


@pytest.mark.parametrize("registered", [(StrangeWrapper,), (wrap_strangely, StrangeWrapper)], ids=["class", "function"])
def test_wrappers_that_libraries_registered_are_asked(registered: tuple[Any, ...]) -> None:
    register = tf.__internal__.mixed_precision.register_loss_scale_wrapper
    register(StrangeOptimizer, *registered)
    inner = StrangeOptimizer()
    optimizer = enable(inner, 123.0)
    assert isinstance(optimizer, StrangeWrapper)
    assert (optimizer.inner, optimizer.loss_scale) == (inner, 123.0)
    with pytest.raises(ValueError, match=r'^"opt" must not already be an instance of a StrangeWrapper'):
        enable(optimizer)
    product = tf.function(tf.matmul)(tf.fill([1, 1], 300.0), tf.fill([1, 1], 300.0))
    assert float(product[0, 0]) == float("inf")  # the rewrite is on


def test_the_class_registered_first_decides() -> None:
    register = tf.__internal__.mixed_precision.register_loss_scale_wrapper
    register(v1.train.GradientDescentOptimizer, wrap_strangely, StrangeWrapper)  # after v1.train.Optimizer
    assert isinstance(enable(sgd()), mixdown.MixedPrecisionLossScaleOptimizer)


def minimized(**settings: Any) -> float:
    optimizer, weight = mixdown.MixedPrecisionLossScaleOptimizer(sgd(), 8), tf.Variable(3.0)
    optimizer.minimize(lambda: 2.0 * weight, var_list=[weight], **settings)
    return float(weight)


@pytest.mark.parametrize(
    "settings",
    [
        {"grad_loss": tf.constant(7.0)},
        {"grad_loss": "no tensor at all"},
        {"gate_gradients": "no gate"},
        {"aggregation_method": "no method"},
        {"colocate_gradients_with_ops": True},
    ],
    ids=str,
)
def test_in_eager_execution_minimize_ignores_how_gradients_are_to_be_computed(settings: dict[str, Any]) -> None:
    assert minimized(**settings) == minimized() == 2.0


def test_in_a_graph_minimize_honours_how_gradients_are_to_be_computed() -> None:
    optimizer = mixdown.MixedPrecisionLossScaleOptimizer(sgd(), 8)
    with tf.Graph().as_default(), v1.Session() as session:
        weight = tf.Variable(3.0)
        train = optimizer.minimize(2.0 * weight, var_list=[weight], grad_loss=tf.constant(7.0))
        session.run(v1.global_variables_initializer())
        session.run(train)
        assert session.run(weight) == -4.0
        with pytest.raises(ValueError, match="gate_gradients"):
            optimizer.minimize(2.0 * weight, gate_gradients=99)


@pytest.mark.parametrize("wrong", [lambda: [5.0], lambda: [tf.constant(5.0)], lambda: ["weight"], lambda: [None]])
@pytest.mark.parametrize("graph", [False, True], ids=["eager", "graph"])
def test_minimize_refuses_what_is_no_variable(wrong: Callable[[], Any], *, graph: bool) -> None:
    with tf.Graph().as_default() if graph else nullcontext():
        optimizer, weight = mixdown.MixedPrecisionLossScaleOptimizer(sgd(), 8), tf.Variable(3.0)
        loss: Any = 2.0 * weight if graph else lambda: 2.0 * weight
        with pytest.raises(ValueError, match=r"^var_list must hold tf\.Variable objects, got .*compute_gradients\.$"):
            optimizer.minimize(loss, var_list=[weight, *wrong()])
        optimizer.minimize(loss, var_list=(weight,))


def test_gradients_of_other_tensors_can_still_be_computed() -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        point = tf.constant(3.0)
        ((gradient, _),) = mixdown.MixedPrecisionLossScaleOptimizer(sgd(), 8).compute_gradients(point * point, [point])
        assert session.run(gradient) == 6.0


def test_minimize_finds_the_variables_itself() -> None:
    weight = tf.Variable(3.0)
    mixdown.MixedPrecisionLossScaleOptimizer(sgd(), 8).minimize(lambda: 2.0 * weight)
    assert float(weight) == 2.0
