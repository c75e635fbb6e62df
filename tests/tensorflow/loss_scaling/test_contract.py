"""What TensorFlow's own classes promise, held by ours: in eager execution and in graphs, with a strategy and without.

The stories are those that TensorFlow tells of its classes; `test_tensorflows_own_class_tells_the_same_stories` holds
the table against them.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import mixdown
from mixdown.tensorflow.loss_scaling.loss_scale import get

v1 = tf.compat.v1
LARGEST = float(np.finfo(np.float32).max)

# Arguments of a dynamic scale, good and bad steps, and the scale after each.
STORIES = {
    "grows after every second good step": ((1, 2, 2), "gggggg", [1, 2, 2, 4, 4, 8]),
    "grows to the largest float32": (
        (LARGEST / 4, 2, 2),
        "gggggg",
        [LARGEST / 4, LARGEST / 2, LARGEST / 2, *[LARGEST] * 3],
    ),
    "drops at every bad step": ((1024, 2, 2), "bbbbbb", [512, 256, 128, 64, 32, 16]),
    "never drops below 1": ((16, 2, 2), "bbbbbb", [8, 4, 2, 1, 1, 1]),
    "counts good steps anew after a bad one": ((1, 2, 2), "gggbg", [1, 2, 2, 1, 1]),
    "grows at every good step": ((1, 1, 2), "gggbgg", [2, 4, 8, 4, 8, 16]),
    "up and down in turns": ((1, 1, 2), "gbgbgbgbg", [2, 1, 2, 1, 2, 1, 2, 1, 2]),
    "only down in turns": ((32, 2, 2), "gbgbgbg", [32, 16, 16, 8, 8, 4, 4]),
    "another multiplier": ((4, 2, 3), "ggbgg", [4, 12, 4, 4, 12]),
    "a mixture": ((4, 2, 2), "bgggbgbgggb", [2, 2, 4, 4, 2, 2, 1, 1, 2, 2, 1]),
    "a period that is a float": ((1, 2.0, 2.0), "gggb", [1, 2, 2, 1]),
}


@pytest.fixture(scope="module")
def mirrored() -> Any:
    return tf.distribute.MirroredStrategy(["/cpu:0"])


@pytest.fixture(params=["eager", "graph"])
def mode(request: pytest.FixtureRequest) -> Iterator[str]:
    with nullcontext() if request.param == "eager" else tf.Graph().as_default():
        yield request.param


@pytest.fixture(params=["no strategy", "mirrored"])
def strategy(request: pytest.FixtureRequest, mirrored: Any) -> Iterator[Any]:
    chosen = mirrored if request.param == "mirrored" else tf.distribute.get_strategy()
    with chosen.scope():
        yield chosen


@contextmanager
def running() -> Iterator[None]:
    """In a graph: a session in which all variables have their first values."""
    if tf.executing_eagerly():
        yield
        return
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        yield


def prepared(effect: Callable[[], Any]) -> Callable[[], Any]:
    """An effect that is had at every call while `running`; in a graph it is built here, once."""
    if tf.executing_eagerly():
        return effect
    built = effect()
    return lambda: None if built is None else v1.get_default_session().run(built)


def told(kind: Any, arguments: tuple[float, ...], story: str, strategy: Any) -> list[float]:
    """The scale after each step of a story, updated as callers of TensorFlow's class do."""
    scale, finite = kind(*arguments), tf.Variable(initial_value=True, trainable=False)

    def update() -> Any:
        number = tf.where(finite, 1.0, np.nan)
        gradient = strategy.extended.call_for_each_replica(lambda: number) if tf.distribute.has_strategy() else number
        done, advice = scale.update([gradient, None])
        same = v1.assert_equal(advice, finite)
        if tf.executing_eagerly():
            return None
        with tf.control_dependencies([same]):
            return tf.identity(done)  # so it is a tensor

    foresee = {step: prepared(lambda step=step: finite.assign(step == "g")) for step in "gb"}  # type: ignore[misc]
    step, now, scales = prepared(update), prepared(scale), []
    with running():
        for each in story:
            foresee[each]()
            step()
            scales.append(float(now()))
    return scales


@pytest.mark.usefixtures("mode")
@pytest.mark.parametrize("name", STORIES)
def test_dynamic_scale_tells_its_story(name: str, strategy: Any) -> None:
    arguments, story, scales = STORIES[name]
    assert told(mixdown.DynamicLossScale, arguments, story, strategy) == scales


@pytest.mark.parametrize("name", STORIES)
def test_tensorflows_own_class_tells_the_same_stories(name: str) -> None:
    arguments, story, scales = STORIES[name]
    assert told(v1.mixed_precision.DynamicLossScale, arguments, story, tf.distribute.get_strategy()) == scales


@pytest.mark.usefixtures("mode")
@pytest.mark.parametrize("gradient", [0.0, np.nan])
def test_fixed_scale_advises_with_a_python_true(gradient: float) -> None:
    scale = mixdown.FixedLossScale(1000)
    done, advice = scale.update([tf.constant(gradient)])
    step, now = prepared(lambda: done), prepared(scale)
    with running():
        step()
        assert advice is True
        assert now() == 1000.0


@pytest.mark.usefixtures("mode", "strategy")
@pytest.mark.parametrize("gradients", [4.0, [None]], ids=str)
def test_a_gradient_need_not_be_in_a_list_and_may_be_none(gradients: Any) -> None:
    scale = mixdown.DynamicLossScale()
    advice = prepared(lambda: scale.update(tf.constant(4.0) if gradients == 4.0 else gradients)[1])
    with running():
        assert advice()


@pytest.mark.usefixtures("mode")
@pytest.mark.parametrize("make", [lambda: get(123), lambda: mixdown.DynamicLossScale(1, 2, 3), lambda: get("dynamic")])
def test_configurations_come_back_and_calls_give_tensors(make: Callable[[], Any]) -> None:
    first = make()
    again = type(first).from_config(first.get_config())
    assert again.get_config() == first.get_config()
    assert tf.is_tensor(again())
    one, other = prepared(first), prepared(again)
    with running():
        assert one() == other()


def run(strategy: Any, step: Callable[[], Any]) -> Any:
    return strategy.extended.call_for_each_replica(step) if tf.distribute.has_strategy() else step()


@pytest.mark.usefixtures("mode")
@pytest.mark.parametrize("scale", [10.0, (2, 1, 2)], ids=["fixed", "dynamic"])
def test_what_is_differentiated_is_the_scaled_loss(strategy: Any, scale: Any) -> None:
    weight, seen = tf.Variable([5.0]), tf.Variable([0.0], trainable=False)
    scale = mixdown.DynamicLossScale(*scale) if isinstance(scale, tuple) else scale
    opt = mixdown.MixedPrecisionLossScaleOptimizer(v1.train.GradientDescentOptimizer(2.0), scale)

    @tf.custom_gradient
    def watched(x: Any) -> Any:
        def gradient(upstream: Any) -> Any:
            with tf.control_dependencies([seen.assign(upstream)]):
                return tf.identity(upstream)

        return tf.identity(x), gradient

    step = prepared(lambda: run(strategy, lambda: opt.minimize(lambda: watched(weight), var_list=[weight])))
    now = prepared(lambda: (tf.identity(weight), tf.identity(seen)))
    story = []
    with running():
        for _ in range(2):
            step()
            story.append([float(each[0]) for each in now()])
    # The gradient of the loss is 1, and so each step takes 2 away, whatever the scale is.
    assert story == ([[3.0, 10.0], [1.0, 10.0]] if scale == 10.0 else [[3.0, 2.0], [1.0, 4.0]])


@pytest.mark.usefixtures("mode")
def test_momentum_and_scale_move_together_and_nan_moves_only_the_scale(strategy: Any) -> None:
    weight, poison = tf.Variable([1.0, 2.0]), tf.Variable(1.0, trainable=False)
    scale = mixdown.DynamicLossScale(2, 1, 4)
    opt = mixdown.MixedPrecisionLossScaleOptimizer(v1.train.MomentumOptimizer(1.0, momentum=1.0), scale)
    step = prepared(lambda: run(strategy, lambda: opt.minimize(lambda: weight * poison, var_list=[weight])))
    spoil = prepared(lambda: poison.assign(np.nan))
    now = prepared(lambda: (tf.identity(weight), scale()))
    seen = []
    with running():
        for effect in (step, step, spoil, step):
            effect()
            seen.append([np.asarray(each).tolist() for each in now()])
    # The gradient is 1, and so the first step takes 1 away, the second 2, the last nothing.
    assert seen == [[[0.0, 1.0], 8.0], [[-2.0, -1.0], 32.0], [[-2.0, -1.0], 32.0], [[-2.0, -1.0], 8.0]]


def test_a_checkpoint_holds_the_scale_and_its_count(strategy: Any, tmp_path: Path) -> None:
    weight, scale = tf.Variable([2.0]), mixdown.DynamicLossScale(1.0, 2, 2.0)
    opt = mixdown.MixedPrecisionLossScaleOptimizer(v1.train.MomentumOptimizer(1.0, momentum=1.0), scale)

    def step() -> tuple[float, ...]:
        run(strategy, lambda: opt.minimize(lambda: weight + 1.0, var_list=[weight]))
        return state()

    def state() -> tuple[float, ...]:
        variables = scale._current_loss_scale, scale._num_good_steps  # as programs read TensorFlow's
        return tuple(tf.convert_to_tensor(each).numpy().item() for each in variables)

    assert step() == (1.0, 1)
    checkpoint = tf.train.Checkpoint(optimizer=opt)
    saved = checkpoint.save(str(tmp_path / "state"))
    assert step() == (2.0, 0)
    checkpoint.restore(saved).assert_consumed()
    assert state() == (1.0, 1)
