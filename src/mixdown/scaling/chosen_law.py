"""The law behind what a user passes as a loss scale: "dynamic", a number, a `Law`, or an object that has one."""

from __future__ import annotations

from numbers import Real

from mixdown.scaling.machine import Law, positive_real


def law_of(loss_scale: object) -> Law:
    """The constants behind "dynamic", a number, a `Law` or one of mixdown's loss scales; it creates no variable.

    Raises:
        TypeError: it is none of them.
        ValueError: it is another string, or a number that is no usable scale.
    """
    law = loss_scale if isinstance(loss_scale, Law) else getattr(loss_scale, "law", None)
    if isinstance(law, Law):
        return law
    if is_number(loss_scale):
        return fixed_law("loss_scale", loss_scale)
    refuse_unless_dynamic(loss_scale, " The scale is kept in the optimizer's own state, which no other kind can move.")
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


def is_number(value: object) -> bool:
    """Whether it is a number, which a bool is not."""
    return isinstance(value, Real) and not isinstance(value, bool)


def refuse_unless_dynamic(value: object, reason: str = "") -> None:
    """Refuse what is not the word "dynamic"; the reason is added if it is no word at all."""
    rule = f'loss_scale must be a number, "dynamic" or a LossScale, got {value!r}'
    if not isinstance(value, str):
        raise TypeError(f"{rule} of type {type(value).__name__}.{reason}")
    if value != "dynamic":
        raise ValueError(f"{rule}.")
