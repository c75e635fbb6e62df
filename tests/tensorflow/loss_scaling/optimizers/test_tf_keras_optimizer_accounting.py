"""What is said about skipped steps: the books while training, the warning at 50, the error at a limit."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tests.tensorflow.loss_scaling.optimizers.tf_keras_training import STYLES, bare, compiled, fit, wrapped

import mixdown
from mixdown.errors import LossScaleWarning

NAN, INF = float("nan"), float("inf")
LIMIT = "3 steps in a row were skipped because gradients were not finite: first/kernel:0 \\(NaN\\).*skip_limit=3"


@pytest.fixture(params=STYLES)
def style(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def stepper(optimizer: Any, variables: list[tf.Variable], *, how: str) -> Any:
    """A function that takes one step with the given gradients."""

    def step(*gradients: Any) -> None:
        optimizer.get_scaled_loss(tf.constant(1.0))
        unscaled = optimizer.get_unscaled_gradients([each * optimizer.loss_scale for each in gradients])
        optimizer.apply_gradients(zip(unscaled, variables, strict=True))

    return step if how == "eager" else tf.function(step, jit_compile=how == "xla")


@pytest.mark.parametrize("how", ["eager", "graph", "xla"])
def test_the_books_tell_the_story_step_by_step(style: str, how: str) -> None:
    optimizer = wrapped(bare(style, "SGD"), mixdown.DynamicLossScale(16.0, 2))
    variables = [tf.Variable(tf.zeros(2), name=name) for name in "ab"]
    step = stepper(optimizer, variables, how=how)
    fine, inf, nan, both = (tf.constant(each) for each in ([1.0, 2.0], [INF, 0.0], [0.0, NAN], [-INF, NAN]))
    story = [
        # gradients of a and b, scale, good steps, skipped, last skipped, in a row, offenders
        ((fine, fine), 16.0, 1, 0, None, 0, []),
        ((fine, fine), 32.0, 0, 0, None, 0, []),
        ((inf, nan), 16.0, 0, 1, 2, 1, [("a:0", "Inf"), ("b:0", "NaN")]),
        ((fine, both), 8.0, 0, 2, 3, 2, [("b:0", "Inf and NaN")]),
        ((fine, fine), 8.0, 1, 2, 3, 0, [("b:0", "Inf and NaN")]),
    ]
    for gradients, *expected in story:
        step(*gradients)
        told = [float(optimizer.loss_scale), optimizer.good_steps, optimizer.skipped_steps]
        told += [optimizer.last_skipped_step, optimizer.skips_in_a_row, optimizer.offending_variables]
        assert told == expected
    assert np.allclose(variables[0], -0.01 * 3 * np.array([1.0, 2.0]))


@pytest.mark.parametrize("how", ["eager", "graph", "xla"])
def test_the_first_eight_offenders_are_kept_in_order(style: str, how: str) -> None:
    optimizer = wrapped(bare(style, "SGD"))
    variables = [tf.Variable(0.0, name=f"v{at}") for at in range(12)]
    step = stepper(optimizer, variables, how=how)
    step(*[tf.constant(1.0 if at == 1 else NAN) for at in range(12)])
    kept = [0, 2, 3, 4, 5, 6, 7, 8]
    assert optimizer.offending_variables == [(f"v{at}:0", "NaN") for at in kept]


def test_fifty_skips_in_a_row_are_warned_of_once(style: str) -> None:
    net = compiled(wrapped(bare(style)))
    with pytest.warns(LossScaleWarning, match="50 steps in a row were skipped.*first/kernel:0") as heard:
        fit(net, range(60), bad=tuple(range(60)))
    assert len(heard) == 1


def test_forty_nine_skips_in_a_row_are_not(style: str) -> None:
    optimizer = wrapped(bare(style))
    fit(compiled(optimizer), range(51), bad=tuple(range(49)))
    assert (optimizer.skipped_steps, optimizer.skips_in_a_row) == (49, 0)


def test_at_the_limit_an_eager_loop_raises_the_error_itself(style: str) -> None:
    optimizer = wrapped(bare(style, "SGD"), skip_limit=3)
    step = stepper(optimizer, [tf.Variable(0.0, name="w")], how="eager")
    for gradient in (NAN, NAN, 1.0, INF, INF):
        step(tf.constant(gradient))
    with pytest.raises(mixdown.LossScaleError, match=r"3 steps in a row .* w:0 \(Inf\)\. .*skip_limit=3"):
        step(tf.constant(INF))


def test_at_the_limit_fit_stops_with_the_text_of_the_error(style: str) -> None:
    net = compiled(wrapped(bare(style), skip_limit=3))
    with pytest.raises(tf.errors.UnknownError, match=f"LossScaleError: {LIMIT}"):
        fit(net, range(9), bad=(1, 2, 4, 5, 6, 7))
    assert net.optimizer.skips_in_a_row == 3
    assert net.optimizer.steps == 7


def test_compiled_fit_raises_the_error_when_it_ends() -> None:
    net = compiled(wrapped(bare("new"), skip_limit=3), jit_compile=True)
    fit(net, range(6), bad=(3, 4))
    with pytest.raises(mixdown.LossScaleError, match=LIMIT):
        fit(net, range(3), bad=(0, 1, 2))


def test_compiled_fit_warns_when_it_ends() -> None:
    net = compiled(wrapped(bare("new")), jit_compile=True)
    with pytest.warns(LossScaleWarning, match="50 steps in a row were skipped.*first/kernel:0"):
        fit(net, range(60), bad=tuple(range(60)))
    fit(net, range(2), bad=(0, 1))  # said once: a second warning would be an error here
    assert net.optimizer.skips_in_a_row == 62


def test_compiled_steps_are_answered_for_by_check_skips(style: str) -> None:
    optimizer = wrapped(bare(style, "SGD"), skip_limit=2)
    step = stepper(optimizer, [tf.Variable(0.0, name="w")], how="xla")
    step(tf.constant(NAN))
    optimizer.check_skips()
    step(tf.constant(NAN))
    with pytest.raises(mixdown.LossScaleError, match=r"2 steps in a row .* w:0 \(NaN\)"):
        optimizer.check_skips()


@pytest.mark.parametrize(("limit", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError), (True, TypeError)])
def test_a_limit_that_means_nothing_is_refused(style: str, limit: Any, error: Any) -> None:
    with pytest.raises(error, match="skip_limit must be"):
        wrapped(bare(style), skip_limit=limit)


def test_a_refused_loss_scale_leaves_the_optimizer_free(style: str) -> None:
    inner = bare(style)
    with pytest.raises(ValueError, match='loss_scale must be a number, "dynamic" or a LossScale'):
        wrapped(inner, "automatic")
    assert wrapped(inner).inner_optimizer is inner
