"""How ops pass errors on, forward and backward: one class a kind of op. Start with `Law`.

A law takes the balls of an op's inputs. It yields the balls of its outputs and a function for the way back, from the
balls of the outputs' gradients to those of the inputs'. Every bound holds whichever ops inside a verb are low, so that
one format a verb is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from tests.reliability.fuzz_balls import (
    Ball,
    Format,
    OutOfRangeError,
    Run,
    arrays,
    exactly,
    listed,
    middle,
    polynomial,
    pulled,
    reach,
    size,
)

Pull = Callable[[Sequence[Ball]], list[Ball | None]]
Outcome = tuple[list[Any], Pull]
"""The balls of the outputs, and the way back."""
Law = Callable[[Run, Sequence[Any], Format], Outcome]
"""What an op does to balls: `run` is the op itself, in float64, and `form` the format it computes in."""
SPARE = 6  # roundings of an op besides those of its sums: of its inputs, of its output, and inside
SMOOTH_REACH = 200.0  # arguments of curves stay below, so that squares of them are finite in float16


def nothing_back(count: int) -> Pull:
    """The way back of an op without a derivative."""
    return lambda _: [None] * count


@dataclass(frozen=True)
class Polynomial:
    """Sums of products: products of matrices, convolutions, averages, sums, and all that only moves values."""

    bound: Run | None = None  # the op with plus signs only, if it has others
    terms: int | None = 0  # how many are summed; None for as many as there are elements
    back: int | None = 0  # the same for its derivatives

    def __call__(self, run: Run, inputs: Sequence[Any], form: Format) -> Outcome:
        bound = self.bound or run
        outputs = polynomial(run, bound, inputs, form, _roundings(self.terms, inputs))
        elements = [*inputs, *outputs]

        def pull(gradients: Sequence[Ball]) -> list[Ball | None]:
            back, most = (_way_back(function, len(inputs)) for function in (run, bound))
            floats = [index for index, value in enumerate(inputs) if isinstance(value, Ball)]
            found = polynomial(back, most, [*inputs, *gradients], form, _roundings(self.back, elements))
            balls = dict(zip(floats, found, strict=True))
            return [balls.get(index) for index in range(len(inputs))]

        return list(outputs), pull


def _roundings(terms: int | None, values: Sequence[Any]) -> int:
    return SPARE + (max(int(np.size(middle(value))) for value in values) if terms is None else terms)


def _way_back(run: Run, count: int) -> Run:
    """The derivative as a function of the inputs and the gradients: again sums of products."""

    def back(*values: Any) -> list[Any]:
        found = pulled(run, values[:count], values[count:])
        return [value for value in found if value is not None]

    return back


@dataclass(frozen=True)
class Curve:
    """An element-wise function with a bounded slope."""

    slope: float  # the largest magnitude of its first derivative
    bend: float = 0.0  # of its second, where it has one
    kinks: tuple[float, ...] = ()  # where its slope jumps

    def __call__(self, run: Run, inputs: Sequence[Any], form: Format) -> Outcome:
        (x,) = inputs
        if not np.all(x.magnitude < SMOOTH_REACH):
            raise OutOfRangeError
        (y,) = arrays(run(x.middle))
        off = form.share(2 * SPARE)
        out = Ball(y, self.slope * x.radius + off * (np.abs(y) + 1) + form.tiny)

        def pull(gradients: Sequence[Ball]) -> list[Ball | None]:
            (g,) = gradients
            (slope,) = pulled(run, [x.middle], [np.ones_like(y)])
            blur = np.minimum(self.bend * x.radius, 2 * self.slope) + off * (self.slope + 1)
            for kink in self.kinks:
                blur += 2 * self.slope * (np.abs(x.middle - kink) <= x.radius)
            radius = g.magnitude * blur + g.radius * np.abs(slope) + 2 * SPARE * form.tiny
            return [Ball(g.middle * slope, radius)]

        return [out], pull


@dataclass(frozen=True)
class Choice:
    """Picks one of the values it is given, as maxima do: off by no more than the worst of them.

    A near tie may be decided otherwise, so a gradient may arrive at any of the values that were in question.
    """

    total: Run  # the op with a sum in place of the choice
    worst: Run | None = None  # the op for radii, if it is not the same

    def __call__(self, run: Run, inputs: Sequence[Any], form: Format) -> Outcome:
        values = [value.middle for value in inputs]
        (picked,) = arrays(run(*values))
        (radius,) = arrays((self.worst or run)(*(value.radius for value in inputs)))
        out = Ball(picked, radius + form.tiny)

        def pull(gradients: Sequence[Ball]) -> list[Ball | None]:
            (g,) = gradients
            middles = pulled(run, values, [g.middle])
            most = pulled(self.total, values, [g.magnitude])
            share = form.share(SPARE + g.middle.size)
            return [Ball(m, (2 + share) * np.abs(top) + form.tiny) for m, top in zip(middles, most, strict=True)]

        return [out], pull


@dataclass(frozen=True)
class Steps:
    """A step function such as Floor: constant, but for jumps at which a computed value may fall on either side."""

    def __call__(self, run: Run, inputs: Sequence[Any], form: Format) -> Outcome:
        (x,) = inputs
        low, y, high = (arrays(run(x.middle + side * x.radius))[0] for side in (-1, 0, 1))
        return [Ball(y, high - low + 4 * form.unit * x.magnitude)], nothing_back(1)


@dataclass(frozen=True)
class Exact:
    """No floating-point value takes part, or only its shape: equal in any precision."""

    def __call__(self, run: Run, inputs: Sequence[Any], _form: Format) -> Outcome:
        return listed(run(*map(middle, inputs))), nothing_back(len(inputs))


@dataclass(frozen=True)
class Constant:
    """A float that only integers or shapes tell."""

    def __call__(self, run: Run, inputs: Sequence[Any], form: Format) -> Outcome:
        return [exactly(run(*map(middle, inputs))).rounded(form)], nothing_back(len(inputs))


def like_softmax(run: Run, inputs: Sequence[Any], form: Format) -> Outcome:
    """Softmax of rows: moving all arguments by r multiplies a probability by exp(2 r) at most."""
    (x,) = inputs
    off = form.share(SPARE + 2 * x.middle.shape[-1])
    (y,) = arrays(run(x.middle))
    grown = np.expm1(2 * np.max(x.radius, -1, keepdims=True))
    out = Ball(y, y * grown + off * (1 + y * grown) + form.tiny)

    def pull(gradients: Sequence[Ball]) -> list[Ball | None]:
        backward = lambda p, g: p * (g - np.sum(p * g, -1, keepdims=True))  # noqa: E731 - a formula
        bound = lambda p, g: p * (g + np.sum(p * g, -1, keepdims=True))  # noqa: E731 - a formula
        return list(polynomial(backward, bound, [out, gradients[0]], form, SPARE + 2 * y.shape[-1]))

    return [out], pull


def like_log_softmax(run: Run, inputs: Sequence[Any], form: Format) -> Outcome:
    """LogSoftmax of rows, or cross entropy: moves by twice of what the arguments move."""
    x, *others = inputs
    (y,) = arrays(run(x.middle, *others))
    off = form.share(SPARE + 2 * x.middle.shape[-1])
    worst = np.max(x.radius) * 2 + off * (np.max(x.magnitude) + np.max(np.abs(y)) + 2)
    terms = 1 if y.ndim else x.middle.shape[0]  # a cross entropy is summed over its rows
    out = Ball(y, np.zeros_like(y) + worst * terms * (1 + form.share(terms)))

    def pull(gradients: Sequence[Ball]) -> list[Ball | None]:
        (share,), _ = like_softmax(tf.nn.softmax, [x], form)
        (back,) = [g for g in pulled(run, [x.middle, *others], [gradients[0].middle]) if g is not None]
        g = gradients[0] if gradients[0].middle.ndim else _spread(gradients[0], x.middle)
        bound = lambda p, g: g + p * np.sum(g, -1, keepdims=True)  # noqa: E731 - a formula
        still = bound(size(share), size(g))
        moved = bound(reach(share), reach(g))
        radius = moved - still + form.share(SPARE + terms) * moved + terms * form.tiny
        return [Ball(back, radius), *[None] * len(others)]

    return [out], pull


def _spread(ball: Ball, over: Any) -> Ball:
    return Ball(np.zeros_like(over) + ball.middle, np.zeros_like(over) + ball.radius)


def like_batch_norm(run: Run, inputs: Sequence[Any], form: Format) -> Outcome:
    """Batch norm by the statistics of the batch, with an epsilon of at least 1, gain 1 and no offset.

    d y_i / d x_j = ((i = j) - 1/n - y_i y_j / n) / s with s >= 1 and |y_i| <= sqrt(n): rows of it sum up to at most
    2 + sqrt(n). Its own slopes are not bounded here: a gradient is only promised to be no larger than it may be.
    """
    (x,) = inputs
    count = x.middle.size // x.middle.shape[-1]
    (y,) = arrays(run(x.middle))
    off = form.share(SPARE) + 2.0**-22 * count  # the statistics are float32, whatever the format
    worst = (2 + count**0.5) * np.max(x.radius) + off * (np.max(x.magnitude) + 1)
    out = Ball(y, worst + off * np.abs(y))

    def pull(gradients: Sequence[Ball]) -> list[Ball | None]:
        (g,) = gradients
        (back,) = pulled(run, [x.middle], [g.middle])
        axes = tuple(range(y.ndim - 1))
        mean = lambda value: np.mean(value, axes, keepdims=True)  # noqa: E731 - a formula
        most = g.magnitude + mean(g.magnitude) + out.magnitude * mean(g.magnitude * out.magnitude)
        return [Ball(back, 2 * (1 + off) * most + form.tiny)]

    return [out], pull
