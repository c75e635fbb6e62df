"""The law behind what a user passes as a loss scale: "dynamic", a number, a `Law`, or an object that has one."""

from numbers import Real

from mixdown.errors import WrongTypeError
from mixdown.scaling.machine import Law, positive_real


def law_of(loss_scale: object) -> Law:
    """The constants behind "dynamic", a number, a `Law` or one of mixdown's loss scales; it creates no variable.

    Raises:
        WrongTypeError: it is none of them.
        ValueError: it is None, another string, or a number that is no usable scale.
    """
    law = loss_scale if isinstance(loss_scale, Law) else getattr(loss_scale, "law", None)
    if isinstance(law, Law):
        return law
    if isinstance(loss_scale, Real) and not isinstance(loss_scale, bool):
        return fixed_law("loss_scale", loss_scale)
    _refuse_unless_dynamic(loss_scale)
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


def _refuse_unless_dynamic(value: object) -> None:
    rule = 'a number, "dynamic" or a LossScale'
    if value is None:
        raise ValueError(f"loss_scale cannot be None. Pass {rule}.")
    if not isinstance(value, str):
        is_scale = callable(value) and hasattr(value, "update")  # a subclass of LossScale with a law of its own
        reason = " A Keras 3 optimizer keeps the scale in its own weights and cannot call another kind of LossScale."
        kind = f"{value!r} of type {type(value).__name__}"
        raise WrongTypeError(f"loss_scale must be {rule}, got {kind}.{reason * is_scale}")
    if value != "dynamic":
        raise ValueError(f"loss_scale must be {rule}, got {value!r}.")
