"""The bounds themselves: every verb, worked out eagerly in 16 bits without any rewrite, lies in its ball.

So do its gradients. A bound that nothing could break would prove nothing, so the balls must be small, too.
"""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tests.reliability.fuzz_balls import FORMATS, Ball, OutOfRangeError, exactly, listed
from tests.reliability.fuzz_traced import dtype_of, given
from tests.reliability.fuzz_verbs import FLOATS, GROUPS, VERBS, Verb

ROUNDED = {
    name: verb for group in ("allow", "infer", "deny", "clear", "unlisted") for name, verb in GROUPS[group].items()
}
ONCE = [name for name in sorted(ROUNDED) if name != "select" and not name.endswith((" image", " cube"))]
"""Every verb in one of its forms; a choice by flags does not round."""
LOWS = ("float16", "bfloat16")


def inputs_of(verb: Verb, seed: int = 7) -> list[Any]:
    """Values for a verb, a float of one form never the same twice."""
    return [given(3, seed + place)[form] for place, form in enumerate(verb.takes)]


def lies_in(ball: Ball, computed: Any) -> None:
    assert ball.holds(computed), (np.asarray(computed, np.float64) - ball.middle, ball.radius)


@pytest.mark.parametrize("low", LOWS)
@pytest.mark.parametrize("name", ONCE)
def test_a_verb_and_its_gradient_in_16_bits_lie_in_their_balls(name: str, low: str) -> None:
    verb, form = ROUNDED[name], FORMATS[low]
    values = inputs_of(verb)
    balls = [exactly(v).rounded(form) if f in FLOATS else v for v, f in zip(values, verb.takes, strict=True)]
    outputs, pull = verb.law(verb.truth or verb.run, balls, form)
    weights = [exactly(given(3, 99 + place)[f]) for place, f in enumerate(verb.gives)]
    with tf.GradientTape() as tape:
        lowered = [tf.constant(v, low if f in FLOATS else dtype_of(f)) for v, f in zip(values, verb.takes, strict=True)]
        tape.watch(lowered)
        computed = listed(verb.run(*lowered))
    for ball, value in zip(outputs, computed, strict=True):
        lies_in(ball, value)
    zero = tf.UnconnectedGradients.ZERO
    upstream = [tf.cast(weight.middle, low) for weight in weights]
    found = tape.gradient(computed, lowered, upstream, unconnected_gradients=zero)
    for ball, value in zip(pull([weight.rounded(form) for weight in weights]), found, strict=True):
        if ball is not None:
            lies_in(ball, tf.convert_to_tensor(value))


@pytest.mark.parametrize("name", ONCE)
def test_the_ball_of_a_verb_is_small(name: str) -> None:
    verb, form = ROUNDED[name], FORMATS["float16"]
    values = zip(inputs_of(verb), verb.takes, strict=True)
    balls = [exactly(value).rounded(form) if f in FLOATS else value for value, f in values]
    for ball in verb.law(verb.truth or verb.run, balls, form)[0]:
        assert np.mean(ball.radius) < 0.1 * (1 + np.mean(np.abs(ball.middle)))


def test_a_wrong_result_is_outside() -> None:
    verb, form = VERBS["matmul"], FORMATS["bfloat16"]
    a, b = (exactly(value).rounded(form) for value in inputs_of(verb))
    (ball,), _ = verb.law(verb.run, [a, b], form)
    assert ball.holds(verb.run(a.middle, b.middle))
    assert not ball.holds(verb.run(a.middle, b.middle.T))
    assert not ball.holds(ball.middle * float("nan"))


def test_what_may_overflow_has_no_ball() -> None:
    large = exactly(np.full((3, 4), 260.0))
    with pytest.raises(OutOfRangeError):
        VERBS["mul rows"].law(VERBS["mul rows"].run, [large, large], FORMATS["float16"])
    VERBS["mul rows"].law(VERBS["mul rows"].run, [large, large], FORMATS["bfloat16"])
