"""The loss-scale state machine, written once. Read `after` first: it is the algorithm.

A scale that is too small lets gradients underflow, one that is too large lets them overflow. The machine
raises the scale after `increment_period` good steps in a row and lowers it after `tolerance` bad steps in a
row; a bad step (any gradient not finite) is never applied. The scale always stays within [floor, ceiling].

`after` is plain arithmetic over whatever numbers it is given: Python floats, NumPy scalars, or the tensors of
a host, which passes its own `where`. So the tests of this file are the tests of every host. `law_of` gives the law
behind what a user passes as a loss scale.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isfinite
from numbers import Real
from typing import Any, NamedTuple

from mixdown.errors import WrongTypeError

Number = Any  # a Python, NumPy or host number: the machine uses + * / comparisons and the `where` it is given
Where = Callable[[Number, Number, Number], Number]  # where(condition, if_true, if_false)

LARGEST_SCALE = (2.0 - 2.0**-23) * 2.0**127
"""The largest float32: growth stops before the scale itself could only be inf, as TensorFlow's does."""

SMALLEST_SCALE = 2.0**-126
"""The smallest normal float32: anything smaller is flushed to 0 on most devices."""

SMALLEST_MULTIPLIER = 1.0 + 2.0**-23
"""The smallest float32 above 1: with anything smaller the scale would never move."""


@dataclass(frozen=True, slots=True)
class Law:
    """The constants of a loss scale, checked when it is made: the error names the one that is wrong."""

    initial: float = 2.0**15  # the scale of the first step
    increment_period: int = 2000  # good steps in a row before the scale grows
    multiplier: float = 2.0  # the factor of growth, and of a drop
    floor: float = 1.0  # the scale never drops below this
    ceiling: float = LARGEST_SCALE  # a growth that would pass this is not taken
    tolerance: int = 1  # bad steps in a row before the scale drops

    def __post_init__(self) -> None:
        for name in ("initial", "multiplier", "floor", "ceiling"):
            object.__setattr__(self, name, positive_real(name, getattr(self, name)))
        for name in ("increment_period", "tolerance"):
            object.__setattr__(self, name, positive_integer(name, getattr(self, name)))
        self._check_ranges()

    @property
    def described(self) -> str:
        """The law in a few words."""
        if self.floor == self.ceiling:
            return f"fixed scale {self.initial:g}"
        return f"dynamic scale from {self.initial:g}, growing every {self.increment_period} finite steps"

    def _check_ranges(self) -> None:
        if self.multiplier < SMALLEST_MULTIPLIER:
            raise ValueError(f"multiplier must be greater than 1, got {self.multiplier}: the scale could never grow.")
        if self.floor < SMALLEST_SCALE:
            raise ValueError(f"floor must be at least 2**-126, got {self.floor}: a smaller scale is flushed to 0.")
        if self.ceiling > LARGEST_SCALE:
            raise ValueError(f"ceiling must be at most 3.4028234e38, got {self.ceiling}: no float32 is larger.")
        if not self.floor <= self.initial <= self.ceiling:
            raise ValueError(
                f"the initial scale must lie between floor and ceiling, got {self.initial} outside "
                f"[{self.floor}, {self.ceiling}]. Pass floor= or ceiling= to widen them."
            )


class State(NamedTuple):
    """What changes from step to step, and all of it is saved with the optimizer."""

    scale: Number
    good_steps: Number  # finite steps since the scale last changed or a bad step came
    bad_steps: Number  # non-finite steps in a row towards the next drop


def start(law: Law) -> State:
    """The state before the first step."""
    return State(law.initial, 0, 0)


def after(law: Law, state: State, *, finite: Number, where: Where) -> State:
    """The state after a step whose gradients were all finite, or not.

    finite:     one more good step; at `increment_period` of them the scale grows by `multiplier`, unless that
                would pass the ceiling, and the count starts again.
    not finite: the count of good steps starts again; at `tolerance` bad steps in a row the scale drops by
                `multiplier`, but never below the floor.
    """
    good, bad = state.good_steps + 1, state.bad_steps + 1
    due, intolerable = good >= law.increment_period, bad >= law.tolerance
    # Graph optimizers turn a division by a constant into a product with its rounded reciprocal; not by this one.
    divisor = where(intolerable, law.multiplier, 1.0)
    dropped = state.scale / divisor
    return State(
        scale=where(
            finite,
            where(due, grown(law, state.scale, where), state.scale),
            where(intolerable, where(dropped > law.floor, dropped, law.floor), state.scale),
        ),
        good_steps=where(finite, where(due, 0, good), 0),
        bad_steps=where(finite, 0, where(intolerable, 0, bad)),
    )


def grown(law: Law, scale: Number, where: Where) -> Number:
    """The scale times the multiplier, or the scale as it is if that would pass the ceiling."""
    # Compared before multiplying, so that no inf is ever computed, and after it: the quotient is rounded.
    factor = where(scale <= law.ceiling / law.multiplier, law.multiplier, 1.0)
    return where(scale * factor <= law.ceiling, scale * factor, scale)


def divided(numbers: Number, scale: Number, cast: Callable[[Number, str], Number]) -> Number:
    """Numbers of a host, such as a gradient, over the scale, in their own dtype; `cast` is the host's."""
    # Divided, not multiplied by 1/scale: 1/2**127 is subnormal and flushed to 0. In float32 at least: a scale
    # above 65504 is inf in float16.
    wide = "float64" if "float64" in str(numbers.dtype) else "float32"
    return cast(cast(numbers, wide) / cast(scale, wide), numbers.dtype)


def positive_real(name: str, value: object) -> float:
    """The value as a float, refused unless it is a finite number above zero."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise WrongTypeError(f"{name} must be a number, got {value!r} of type {type(value).__name__}.")
    number = as_float(value)
    if not isfinite(number) or number <= 0:
        raise ValueError(f"{name} must be finite and greater than 0, got {value}.")
    return number


def as_float(value: Real) -> float:
    """The value as a float; an int beyond all floats is inf."""
    try:
        return float(value)
    except OverflowError:
        return inf


def positive_integer(name: str, value: object) -> int:
    """The value as an int, refused unless it is a whole number above zero; 2.0 is one."""
    if isinstance(value, bool) or not isinstance(value, Real) or not as_float(value).is_integer():
        raise WrongTypeError(f"{name} must be a whole number, got {value!r} of type {type(value).__name__}.")
    if (number := int(as_float(value))) < 1:
        raise ValueError(f"{name} must be at least 1, got {value}.")
    return number


def law_of(loss_scale: object) -> Law:
    """The constants behind "dynamic", a number, a `Law` or one of mixdown's loss scales; it creates no variable."""
    law = loss_scale if isinstance(loss_scale, Law) else getattr(loss_scale, "law", None)
    if isinstance(law, Law):
        return law
    if isinstance(loss_scale, Real) and not isinstance(loss_scale, bool):
        return fixed_law("loss_scale", loss_scale)
    rule = 'a number, "dynamic" or a LossScale'
    if loss_scale is None:
        raise ValueError(f"loss_scale cannot be None. Pass {rule}.")
    if not isinstance(loss_scale, str):
        is_scale = callable(loss_scale) and hasattr(loss_scale, "update")  # a LossScale with a law of its own
        reason = " A Keras 3 optimizer keeps the scale in its own weights and cannot call another kind of LossScale."
        kind = f"{loss_scale!r} of type {type(loss_scale).__name__}"
        raise WrongTypeError(f"loss_scale must be {rule}, got {kind}.{reason * is_scale}")
    if loss_scale != "dynamic":
        raise ValueError(f"loss_scale must be {rule}, got {loss_scale!r}.")
    return Law()


def fixed_law(name: str, value: object) -> Law:
    """The law of a scale that never changes; `name` is that of the argument it came from."""
    scale = positive_real(name, value)
    if scale < 1:
        raise ValueError(
            f"FixedLossScale needs a scale of at least 1, got {scale}. "
            f"Use DynamicLossScale({scale}, floor={scale}) for smaller scales."
        )
    return Law(initial=scale, floor=scale, ceiling=scale)
