"""Layer normalization over the last axis as Keras 3 spells it out, forward and backward: `layer_norms` finds it.

All sizes must be known: if not, TensorFlow asks for every gradient over which axes it has to be summed. The gradients
of scale and offset are sums of values that are still there, and stay.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from mixdown.rules.rule_set import kinds
from mixdown.tensorflow.fusing import norms
from mixdown.tensorflow.fusing.norms import JOIN, LARGE, Norm, Numbers
from mixdown.tensorflow.fusing.patterns import Match, Row, Wires, pattern

FORWARD = """
    squares = SquaredDifference(x, stopped)
    stopped = StopGradient(mean)
    mean = Mean(x, axes_of_mean)
    variance = Mean(squares, axes_of_variance)
    shifted = AddV2(variance, epsilon)
    inverse = Rsqrt(shifted)
    factor = Mul(inverse, scale')
    scale' = Reshape(scale, wide_of_scale)
    minus = Neg(mean)
    moved = Mul(minus, factor)
    shift = AddV2(moved, offset')
    offset' = Reshape(offset, wide_of_offset)
    scaled = Mul(x, factor)
    y = AddV2(scaled, shift)
"""

BACKWARD = """
    to_scaled = Mul(dy, factor)
    to_moved = Mul(dy, factor)
    minus_kept = Sum(to_moved, last_of_minus)
    to_minus = Reshape(minus_kept, kept_of_minus)
    row_of_mean = Neg(to_minus)
    products = Mul(dy, x)
    mean_products = Mul(minus, dy)
    to_factor = AddN(products, mean_products)
    to_inverse = Mul(to_factor, scale')
    inverse_kept = Sum(to_inverse, last_of_inverse)
    from_inverse = Reshape(inverse_kept, kept_of_inverse)
    row_of_variance = RsqrtGrad(inverse, from_inverse)
    to_scale = Mul(inverse, to_factor)
"""


@dataclass(frozen=True)
class LayerNorm(Norm):
    """One layer normalization."""

    shape: tuple[int, ...]  # of what is normalized

    outputs: ClassVar = ("y", "dx", "to_scale")
    large: ClassVar = LARGE | kinds("factor moved shift to_moved mean_products to_factor to_inverse to_scale")
    fused_moves: ClassVar = 14

    @property
    def staying(self) -> tuple[str, ...]:
        """The rows whose nodes are still needed."""
        return ("scale'", "offset'")


def layer_norms(wires: Wires) -> Iterator[LayerNorm]:
    """Every layer normalization in a body whose ops, sizes and constants are exactly those of the pattern."""
    return norms.found(VARIANTS, wires, _checked)


def _checked(match: Match, rows: Sequence[Row], wires: Wires) -> LayerNorm | None:
    """The normalization if its numbers are right, else None."""
    values = norms.constants(match, wires)
    sizes, width = (values["again_kept_of_mean"] or ())[:-1], (values["wide_of_scale"] or (0,))[-1]
    axes = [values[f"axes_of_{name}"] for name in ("mean", "variance")]
    if not norms.are(values, _wanted(sizes, width)) or not all(each in ((-1,), (len(sizes),)) for each in axes):
        return None
    if not norms.keeps_dimensions(match, wires, ("mean", "variance")):
        return None
    epsilon, shape = (values["epsilon"] or (0.0,))[0], tuple(map(int, (*sizes, width)))
    return LayerNorm(match, rows, epsilon, norms.is_shared(match, wires), shape)


def _wanted(sizes: tuple[float, ...], width: float) -> dict[str, Numbers]:
    """The constants of a pattern, by name."""
    row, kept = (*(1,) * len(sizes), width), (*sizes, 1)
    wanted: dict[str, Numbers] = {"kept": kept, "again_kept": kept, "wide": row, "times": row, "count": (width,)}
    wanted |= {"last": (len(sizes),)}
    names = ("mean", "variance", "scale", "offset", "minus", "inverse")
    return {f"{what}_of_{name}": value for what, value in wanted.items() for name in names} | {"two": (2,)}


_ROWS = pattern(FORWARD + BACKWARD + norms.spread("mean") + norms.spread("variance") + JOIN)
VARIANTS = (_ROWS, norms.replaced(_ROWS, {"stopped": "mean"}))
"""As traced, and without what TensorFlow drops from the graphs that it optimizes."""
