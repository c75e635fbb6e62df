"""Batch normalization in training mode as Keras 3 spells it out, forward and backward: `batch_norms` finds it.

The backward pass is what TensorFlow makes of the forward pass. That it has no sums besides those of the pattern shows
that scale and offset are vectors with one number a channel.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product
from math import prod
from typing import NamedTuple

from tensorflow import make_ndarray
from tensorflow.core.framework import types_pb2

from mixdown.rules.tensorflow_traits import TRAITS
from mixdown.tensorflow.fusing.patterns import Match, Row, Wires, matches, pattern
from mixdown.tensorflow.protos.bodies import attribute
from mixdown.tensorflow.protos.wiring import node_name

ANCHOR = "SquaredDifference"

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

SPREAD_KNOWN = """
    row_of_NAME = Reshape(to_NAME, kept_of_NAME)
    again_of_NAME = Reshape(row_of_NAME, again_kept_of_NAME)
    tiled_NAME = Tile(again_of_NAME, times_of_NAME)
    spread_NAME = RealDiv(tiled_NAME, count_of_NAME)
"""
"""A mean's gradient goes to all that it was made of, whose sizes are known."""

SPREAD_UNKNOWN = """
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
"""The same if a size, usually that of the batch, is known only when it runs."""

JOIN = """
    doubled = Mul(two, spread_variance)
    two = Const()
    centred = Sub(x, stopped)
    from_variance = Mul(doubled, centred)
    dx = AddN(to_scaled, spread_mean, from_variance, ...)
"""

AXES = (0, 1, 2)
RANK = 4
TERMS = ("to_scaled", "spread_mean", "from_variance")
"""What is added up to be the gradient of the input, possibly with the gradients of others that read it."""

LARGE = frozenset({"x", "squares", "scaled", "y", "dy", "to_scaled", "products", "doubled", "centred", "from_variance"})
LARGE |= {f"{what}_{name}" for what in ("tiled", "spread") for name in ("mean", "variance")} | {"dx"}
"""Values as large as what is normalized; the others have a number a channel, or are smaller."""

FUSED_MOVES, SUM_MOVES = 5, 2
"""Of these, what one op and its gradient read and write, and what a sum that stays does."""


class BatchNorm(NamedTuple):
    """One normalization that was found."""

    match: Match
    rows: Sequence[Row]
    epsilon: float
    channels: int
    count: int  # how many numbers a channel has, 0 if that is known only when it runs
    shared: bool  # whether gradients of others that read the input are added to its own

    @property
    def name(self) -> str:
        """The node that makes the normalized values."""
        return self.node("y")

    @property
    def nodes(self) -> dict[str, str]:
        """By the rows of the pattern, the nodes that stand for them."""
        return {row.name: self.node(row.name) for row in self.rows}

    @property
    def moves(self) -> int:
        """How often a value as large as the input is moved, less how often two ops with that sum would move one."""
        moved = [
            value for row in self.rows if row.kind not in TRAITS.moves_nothing for value in (*row.operands, row.name)
        ]
        return sum(value in LARGE for value in moved) - FUSED_MOVES - (SUM_MOVES if self.shared else 0)

    def node(self, value: str) -> str:
        """The node that makes a value."""
        return node_name(self.match[value])


def batch_norms(wires: Wires) -> Iterator[BatchNorm]:
    """Every batch normalization in a body whose ops, sizes and constants are exactly those of the pattern."""
    for node in wires.body.nodes:
        if node.op == ANCHOR and attribute(node, "T").type == types_pb2.DT_FLOAT:
            start = {"squares": wires.output(node)}
            yield from islice(filter(None, (_found(rows, wires, start) for rows in VARIANTS)), 1)


def _found(rows: Sequence[Row], wires: Wires, start: Match) -> BatchNorm | None:
    found = (_checked(match, rows, wires) for match in matches(rows, wires, start))
    return next(filter(None, found), None)


def _checked(match: Match, rows: Sequence[Row], wires: Wires) -> BatchNorm | None:
    """The normalization if its numbers are right, else None."""
    values = {name: _constant(wires, text) for name, text in match.items()}
    kept = values["kept_of_mean"] or ()
    if kept[:-1] != (1,) * len(AXES) or not _reduce_the_right_axes(match, wires):
        return None
    sizes = (values.get("times_of_mean") or ())[: len(AXES)]
    count = prod(sizes) if len(sizes) == len(AXES) else 0
    wanted = _wanted(sizes, kept[-1], count, wide="mean'" in match)
    if any(values[name] != wanted[name] for name in wanted.keys() & match.keys()) or values["epsilon"] is None:
        return None
    shared = len(wires.operands(wires.nodes[node_name(match["dx"])])) > len(TERMS)
    return BatchNorm(match, rows, float(values["epsilon"][0]), kept[-1], count, shared)


def _wanted(sizes: tuple[float, ...], channels: float, count: float, *, wide: bool) -> dict[str, tuple[float, ...]]:
    """The constants of a pattern, by name."""
    row, vector = (1, 1, 1, channels), (channels,)
    wanted = {"kept": row, "again_kept": row, "wide": row, "narrow": vector, "form": row if wide else vector}
    wanted |= {"axes": AXES, "times": (*sizes, 1), "first": (0,), "axis": (0,), "rank": (RANK,)}
    wanted |= {"count": (count,)} if count else {}
    names = ("mean", "variance", "scale", "offset", "shift", "factor")
    return {f"{what}_of_{name}": value for what, value in wanted.items() for name in names} | {"two": (2.0,)}


def _reduce_the_right_axes(match: Match, wires: Wires) -> bool:
    kept = [attribute(wires.nodes[node_name(match[name])], "keep_dims").b for name in ("mean_kept", "variance_kept")]
    squeezed = [
        tuple(attribute(wires.nodes[node_name(match[name])], "squeeze_dims").list.i) for name in ("mean", "variance")
    ]
    return all(kept) and squeezed == [AXES, AXES]


def _constant(wires: Wires, text: str) -> tuple[float, ...] | None:
    """The few numbers of a constant, None for anything else."""
    node = wires.nodes.get(node_name(text))
    if node is None or node.op != "Const":
        return None
    tensor = node.attr["value"].tensor
    sizes = [dim.size for dim in tensor.tensor_shape.dim]
    if sizes not in ([], [1], [len(AXES)], [RANK]):
        return None
    try:
        return tuple(make_ndarray(tensor).ravel().tolist())
    except (TypeError, ValueError):  # a broken file
        return None


NO_SCALE = {"factor": "inverse", "to_inverse": "to_factor"}
"""What takes the place of what is multiplied by the scale if there is none."""

ABOUT_SCALE = ("scale'", "to_scale'", "to_scale")

PRUNED = {"stopped": "mean_kept"}
"""What takes the place of what TensorFlow drops from the graphs that it optimizes."""

NOTHING: dict[str, str] = {}


def _variants() -> Iterator[list[Row]]:
    """The pattern for an axis of -1 and of 3, with and without a scale, for sizes that are known and for others."""
    choices = (SPREAD_KNOWN, SPREAD_UNKNOWN), (NOTHING, NO_SCALE), (NOTHING, PRUNED), (_narrowed, list)
    for spread, scale, stop, formed in product(*choices):
        means = spread.replace("NAME", "mean").replace("FROM", "x")
        variances = spread.replace("NAME", "variance").replace("FROM", "squares")
        rows = pattern(FORWARD + BACKWARD + means + variances + JOIN)
        rows = [row for row in rows if not (scale and row.name in ABOUT_SCALE)]
        yield formed(_replaced(rows, {**scale, **stop}))


def _replaced(rows: Sequence[Row], by: Mapping[str, str]) -> list[Row]:
    """A pattern without some rows, whose readers read others."""
    left = [row for row in rows if row.name not in by]
    return [row._replace(operands=tuple(by.get(each, each) for each in row.operands)) for row in left]


def _narrowed(rows: Sequence[Row]) -> list[Row]:
    """A pattern in which vectors are not reshaped."""
    plain = [
        row._replace(name=row.name.rstrip("'"), operands=tuple(each.rstrip("'") for each in row.operands))
        for row in rows
    ]
    return [row for row in plain if row.name not in row.operands]


VARIANTS = tuple(_variants())
