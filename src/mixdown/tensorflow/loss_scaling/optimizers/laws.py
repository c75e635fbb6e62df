"""From what a user passes as `loss_scale` to the constants of the state machine, with no framework needed."""

from numbers import Real
from typing import Any

from mixdown.scaling import Law
from mixdown.scaling.machine import positive_real


def law_of(loss_scale: Any) -> Law:
    """The law behind "dynamic", a number, or one of mixdown's `LossScale` objects.

    Raises:
        TypeError: it is none of them.
        ValueError: it is another string, or a number that is no usable scale.
    """
    law = loss_scale if isinstance(loss_scale, Law) else getattr(loss_scale, "law", None)
    if isinstance(law, Law):
        return law
    if isinstance(loss_scale, str):
        return named(loss_scale)
    if isinstance(loss_scale, Real) and not isinstance(loss_scale, bool):
        return fixed(loss_scale)
    kind = type(loss_scale).__name__
    raise TypeError(
        f'loss_scale must be a number, "dynamic", a FixedLossScale or a DynamicLossScale, got {loss_scale!r} of type '
        f"{kind}. A Keras 3 optimizer keeps the scale in its own weights and cannot call another kind of LossScale."
    )


def named(name: str) -> Law:
    """The law with a name, of which there is one."""
    if name != "dynamic":
        raise ValueError(f'loss_scale must be a number, "dynamic" or a LossScale, got {name!r}.')
    return Law()


def fixed(value: Real) -> Law:
    """The law of a scale with nowhere to go."""
    scale = positive_real("loss_scale", value)
    if scale < 1:
        raise ValueError(
            f"a fixed loss_scale must be at least 1, got {scale}. "
            f"Use DynamicLossScale({scale}, floor={scale}) for smaller scales."
        )
    return Law(initial=scale, floor=scale, ceiling=scale)
