"""Batch normalization in training mode as Keras 3 spells it out, forward and backward: `batch_norms` finds it.

The backward pass is what TensorFlow makes of the forward pass. That it has no sums besides those of the pattern shows
that scale and offset are vectors with one number a channel.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import ClassVar

from mixdown.tensorflow.fusing import norms
from mixdown.tensorflow.fusing.norms import JOIN, Norm, Numbers
from mixdown.tensorflow.fusing.patterns import Match, Row, Wires, pattern
from mixdown.tensorflow.protos.bodies import attribute
from mixdown.tensorflow.protos.wiring import node_name

FORWARD = """
    squares = SquaredDifference(x, stopped)
    stopped = StopGradient(mean_kept)
    mean_kept = Mean(x, axes_of_mean)
    variance_kept = Mean(squares, axes_of_variance)
    mean = Squeeze(mean_kept)
    variance = Squeeze(variance_kept)
    mean' = Reshape(mean, wide_of_mean)
    variance' = Reshape(variance, wide_of_variance)
    shifted = AddV2(variance', epsilon)
    inverse = Rsqrt(shifted)
    factor = Mul(inverse, scale')
    scale' = Reshape(scale, wide_of_scale)
    scaled = Mul(x, factor)
    moved = Mul(mean', factor)
    shift = Sub(offset', moved)
    offset' = Reshape(offset, wide_of_offset)
    y = AddV2(scaled, shift)
"""
"""A name with a dash stands for a vector in the shape of a row, or for the vector itself if the layer's axis is -1."""

BACKWARD = """
    to_scaled = Mul(dy, factor)
    products = Mul(x, dy)
    shift_kept = Sum(dy, axes_of_shift)
    to_offset' = Reshape(shift_kept, form_of_shift)
    to_offset = Reshape(to_offset', narrow_of_offset)
    factor_kept = Sum(products, axes_of_factor)
    from_products = Reshape(factor_kept, form_of_factor)
    minus = Neg(to_offset')
    to_mean' = Mul(minus, factor)
    to_mean = Reshape(to_mean', narrow_of_mean)
    from_mean = Mul(minus, mean')
    to_factor = AddN(from_products, from_mean)
    to_inverse = Mul(to_factor, scale')
    to_scale' = Mul(to_factor, inverse)
    to_scale = Reshape(to_scale', narrow_of_scale)
    to_variance' = RsqrtGrad(inverse, to_inverse)
    to_variance = Reshape(to_variance', narrow_of_variance)
"""

KNOWN = """
    row_of_NAME = Reshape(to_NAME, kept_of_NAME)
"""

UNKNOWN = """
    row_of_NAME = Reshape(to_NAME, kept_of_NAME)
    tiled_NAME = BroadcastTo(row_of_NAME, shape_for_NAME)
    shape_for_NAME = Shape(FROM)
    spread_NAME = RealDiv(tiled_NAME, count_of_NAME)
    count_of_NAME = Cast(product_of_NAME)
    product_of_NAME = Prod(sizes_of_NAME, first_of_NAME)
    sizes_of_NAME = GatherV2(shape_of_NAME, places_of_NAME, axis_of_NAME)
    shape_of_NAME = Shape(FROM)
    places_of_NAME = FloorMod(sum_of_NAME, rank_of_NAME)
    sum_of_NAME = AddV2(axes_of_NAME, rank_of_NAME)
"""
"""How gradients of means are spread if a size, usually that of the batch, is known only when it runs."""

COUNT = tuple(f"{name}_of_mean" for name in ("count", "product", "sizes", "shape", "places", "sum"))
"""How many numbers a channel has is needed in any case."""

AXES = (0, 1, 2)
RANK = 4


@dataclass(frozen=True)
class BatchNorm(Norm):
    """One batch normalization."""

    channels: int
    count: int  # how many numbers a channel has, 0 if that is known only when it runs

    outputs: ClassVar = ("y", "mean", "variance", "dx", "to_scale", "to_offset")
    unsummed: ClassVar = ("to_scale", "to_offset")
    fused_moves: ClassVar = 5

    @property
    def staying(self) -> tuple[str, ...]:
        """The rows whose nodes are still needed."""
        return () if self.count else COUNT


def batch_norms(wires: Wires) -> Iterator[BatchNorm]:
    """Every batch normalization in a body whose ops, sizes and constants are exactly those of the pattern."""
    return norms.found(VARIANTS, wires, _checked)


def _checked(match: Match, rows: Sequence[Row], wires: Wires) -> BatchNorm | None:
    """The normalization if its numbers are right, else None."""
    values = norms.constants(match, wires)
    kept = values["kept_of_mean"] or ()
    if kept[:-1] != (1,) * len(AXES) or not _reduces_the_axes(match, wires):
        return None
    sizes = (values.get("times_of_mean") or ())[: len(AXES)]
    count = int(prod(sizes)) if len(sizes) == len(AXES) else 0
    if not norms.are(values, _wanted(sizes, kept[-1], count, wide="mean'" in match)):
        return None
    epsilon = (values["epsilon"] or (0.0,))[0]
    return BatchNorm(match, rows, epsilon, norms.is_shared(match, wires), int(kept[-1]), count)


def _wanted(sizes: tuple[float, ...], channels: float, count: int, *, wide: bool) -> dict[str, Numbers]:
    """The constants of a pattern, by name."""
    row, vector = (1, 1, 1, channels), (channels,)
    wanted: dict[str, Numbers] = {"kept": row, "again_kept": row, "wide": row, "narrow": vector, "axes": AXES}
    wanted |= {"form": row if wide else vector, "times": (*sizes, 1), "first": (0,), "axis": (0,), "rank": (RANK,)}
    wanted |= {"count": (count,)} if count else {}
    names = ("mean", "variance", "scale", "offset", "shift", "factor")
    return {f"{what}_of_{name}": value for what, value in wanted.items() for name in names} | {"two": (2,)}


def _reduces_the_axes(match: Match, wires: Wires) -> bool:
    squeezed = [wires.nodes[node_name(match[name])] for name in ("mean", "variance")]
    dropped = {tuple(attribute(node, "squeeze_dims").list.i) for node in squeezed}
    return dropped == {AXES} and norms.keeps_dimensions(match, wires, ("mean_kept", "variance_kept"))


NO_SCALE = {"factor": "inverse", "to_inverse": "to_factor"}
"""What takes the place of what is multiplied by the scale if there is none."""

ABOUT_SCALE = ("scale'", "to_scale'", "to_scale")

PRUNED = {"stopped": "mean_kept"}
"""What takes the place of what TensorFlow drops from the graphs that it optimizes."""

NOTHING: dict[str, str] = {}


def _variants() -> Iterator[list[Row]]:
    """The pattern for an axis of -1 and of 3, with and without a scale, for sizes that are known and for others."""
    spreads, replacements = (KNOWN + norms.SPREAD, UNKNOWN), ((NOTHING, NO_SCALE), (NOTHING, PRUNED))
    for spread, scale, stop in product(spreads, *replacements):
        means = spread.replace("NAME", "mean").replace("FROM", "x")
        variances = spread.replace("NAME", "variance").replace("FROM", "squares")
        rows = pattern(FORWARD + BACKWARD + means + variances + JOIN)
        rows = norms.replaced([row for row in rows if not (scale and row.name in ABOUT_SCALE)], {**scale, **stop})
        yield from (_narrowed(rows), rows)


def _narrowed(rows: Sequence[Row]) -> list[Row]:
    """A pattern in which vectors are not reshaped."""
    plain = [
        row._replace(name=row.name.rstrip("'"), operands=tuple(each.rstrip("'") for each in row.operands))
        for row in rows
    ]
    return [row for row in plain if row.name not in row.operands]


VARIANTS = tuple(_variants())
