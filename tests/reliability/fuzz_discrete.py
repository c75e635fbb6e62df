"""What comes of floats and is none: comparisons, and conversions to other types. Start with `Flags`.

A comparison is sure only where its operands are further apart than they may be off. What is not sure is not
compared; what depends on it gets a ball that holds both outcomes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from tests.reliability.fuzz_balls import FORMATS, Ball, Format, Run
from tests.reliability.fuzz_laws import Law, Outcome, Polynomial, nothing_back

if TYPE_CHECKING:
    from collections.abc import Sequence


class UndecidedError(Exception):
    """The way a program takes depends on rounding: nothing is promised about what follows."""


@dataclass(frozen=True)
class Flags:
    """Truth values, and which of them rounding cannot change."""

    values: Any
    sure: Any


@dataclass(frozen=True)
class Unknowable:
    """A value that rounding may change as it likes, within its type and shape."""


def compared(run: Run, inputs: Sequence[Ball], _form: Format) -> Outcome:
    """A comparison of two values."""
    a, b = inputs
    sure = np.abs(a.middle - b.middle) > a.radius + b.radius
    return [Flags(np.asarray(run(a.middle, b.middle)), sure)], nothing_back(2)


def guessed(run: Run, inputs: Sequence[Ball], form: Format) -> Outcome:
    """A comparison of the sum of a value with nothing."""
    (total,), _ = Polynomial(terms=None)(tf.reduce_sum, inputs, form)
    return [Flags(np.asarray(run(inputs[0].middle)), np.abs(total.middle) > total.radius)], nothing_back(1)


def inverted(run: Run, inputs: Sequence[Flags], _form: Format) -> Outcome:
    """Logic does not round."""
    return [Flags(np.asarray(run(inputs[0].values)), inputs[0].sure)], nothing_back(1)


def unknowable(_run: Run, inputs: Sequence[Any], _form: Format) -> Outcome:
    """The position of a maximum: of two that are nearly equal it may be either."""
    return [Unknowable()], nothing_back(len(inputs))


def flags_as_numbers(_run: Run, inputs: Sequence[Flags], _form: Format) -> Outcome:
    """Truth values as 0 and 1."""
    (flags,) = inputs
    return [Ball(flags.values.astype(np.float64), 1.0 - flags.sure)], nothing_back(1)


def selected(run: Run, inputs: Sequence[Any], _form: Format) -> Outcome:
    """One of two values, element by element."""
    flags, a, b = inputs
    either = np.abs(a.middle - b.middle) + np.maximum(a.radius, b.radius)
    radius = np.where(flags.sure, np.where(flags.values, a.radius, b.radius), either)

    def pull(gradients: Sequence[Ball]) -> list[Ball | None]:
        (g,) = gradients
        nothing = np.zeros_like(g.middle)
        out: list[Ball | None] = [None]
        for chosen in (flags.values, np.logical_not(flags.values)):
            known = np.where(chosen, g.radius, nothing)
            out.append(Ball(np.where(chosen, g.middle, nothing), np.where(flags.sure, known, g.magnitude)))
        return out

    return [Ball(np.asarray(run(flags.values, a.middle, b.middle)), radius)], pull


def converted(dtype: str) -> tuple[Run, Law, Run]:
    """The user's own conversion to 16 bits and back: it rounds in any precision, and so does its gradient."""
    form = FORMATS[dtype]

    def law(_run: Run, inputs: Sequence[Ball], _form: Format) -> Outcome:
        return [inputs[0].rounded(form)], lambda gradients: [gradients[0].rounded(form)]

    return lambda x: tf.cast(tf.cast(x, dtype), x.dtype), law, tf.identity
