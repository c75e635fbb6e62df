"""Balls: a float64 value and how far a computed one may be from it. Start with `Ball`, then `polynomial`.

A ball is the promise |computed - middle| <= radius, element by element. Two things widen it. An op passes on what its
inputs are off: sums of products as the inequality in `polynomial` has it, others by their slope. And the op rounds:
after n roundings in a format of unit roundoff u a sum is off by at most n u / (1 - n u) of the sum of the magnitudes of
its terms (the textbook bound, whatever the order of summation), and by what lies below the format's smallest number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

Run = Callable[..., Any]


class OutOfRangeError(Exception):
    """A value may overflow the format: nothing is promised about what follows."""


@dataclass(frozen=True)
class Format:
    """How a floating-point format rounds."""

    unit: float  # at most this far off, relative to the value
    tiny: float  # or this far off, below the smallest normal number
    largest: float

    def share(self, roundings: int) -> float:
        """How far off a sum of terms is after that many roundings, relative to the sum of magnitudes."""
        off = roundings * self.unit
        if off >= 1:
            raise OutOfRangeError
        return off / (1 - off)


FORMATS = {
    "float32": Format(2.0**-23, 2.0**-140, 2.0**127),  # one bit is left to fast approximations of its kernels
    "float16": Format(2.0**-11, 2.0**-24, 65504.0),
    "bfloat16": Format(2.0**-8, 2.0**-126, 2.0**127),
}


@dataclass(frozen=True, eq=False)
class Ball:
    """A value and how far a computed one may be from it; both are float64 arrays of one shape."""

    middle: Any
    radius: Any

    @property
    def magnitude(self) -> Any:
        """The largest magnitude that a computed value may have."""
        return np.abs(self.middle) + self.radius

    def rounded(self, form: Format) -> Ball:
        """The ball of a computed value that is then converted to a format."""
        self.check(form)
        return Ball(self.middle, self.radius + form.unit * self.magnitude + form.tiny)

    def check(self, form: Format) -> None:
        """Raise OutOfRangeError unless every value in the ball is finite in a format."""
        if not np.all(self.magnitude < form.largest):  # written so that NaN is out of range too
            raise OutOfRangeError

    def holds(self, computed: Any) -> bool:
        """Whether a computed value is where it was promised to be."""
        return bool(np.all(np.abs(np.asarray(computed, np.float64) - self.middle) <= self.radius))


def exactly(value: Any) -> Ball:
    """The ball of a number that is not off at all."""
    middle = np.asarray(value, np.float64)
    return Ball(middle, np.zeros_like(middle))


def listed(value: Any) -> list[Any]:
    """The outputs of an op as a list."""
    return list(value) if isinstance(value, list | tuple) else [value]


def arrays(value: Any) -> list[Any]:
    """The same as float64 arrays: on small values NumPy is much quicker than TensorFlow."""
    return [np.asarray(output, np.float64) for output in listed(value)]


def polynomial(run: Run, bound: Run, inputs: Sequence[Any], form: Format, roundings: int) -> list[Ball]:
    """The balls that an op makes of balls and exact inputs, if it computes sums of products of them.

    Args:
        run: the op.
        bound: the same with every minus sign made a plus, so that magnitudes cannot cancel. Such a function p obeys
            |run(a') - run(a)| <= p(|a| + r) - p(|a|) wherever |a' - a| <= r.
        inputs: its inputs.
        form: the format it computes in.
        roundings: how many roundings lie on the longest way from an input to an output.
    """
    middles = arrays(run(*map(middle, inputs)))
    still = arrays(bound(*map(size, inputs)))
    moved = arrays(bound(*map(reach, inputs)))
    share = form.share(roundings)
    out = []
    for value, low, high in zip(middles, still, moved, strict=True):
        ball = Ball(value, high - low + share * high + roundings * form.tiny)
        Ball(high, ball.radius).check(form)  # partial sums are no larger than this
        out.append(ball)
    return out


def middle(value: Any) -> Any:
    """The value itself: of a ball, or of an exact input."""
    return value.middle if isinstance(value, Ball) else value


def size(value: Any) -> Any:
    """The magnitude of the value itself."""
    return np.abs(value.middle) if isinstance(value, Ball) else value


def reach(value: Any) -> Any:
    """The largest magnitude that a computed value may have."""
    return value.magnitude if isinstance(value, Ball) else value


def pulled(run: Run, inputs: Sequence[Any], upstream: Sequence[Any]) -> list[Any]:
    """The derivative of the outputs, weighted by `upstream`, by every float64 input; None for the others."""
    own = [tf.constant(value) if _is_float(value) else value for value in inputs]
    floats = [value for value in own if _is_float(value)]
    with tf.GradientTape() as tape:
        tape.watch(floats)
        outputs = listed(run(*own))
    weights = [tf.constant(weight) for weight in upstream]
    found = tape.gradient(outputs, floats, weights, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    dense = (np.asarray(tf.convert_to_tensor(gradient)) for gradient in found)
    return [next(dense) if _is_float(value) else None for value in own]


def _is_float(value: Any) -> bool:
    return getattr(value, "dtype", None) == tf.float64
