"""Mean and variance of the same values in one pass over them, in functions that XLA compiles: `OnePass`.

A variance as programs write it, the mean of squared differences from the mean, waits for the mean, so that all values
are read twice. The differences from any other number have the same variance: the mean of their squares, less the square
of their mean. XLA computes both means in one kernel. The number is the first value of each channel: if it is d standard
deviations from the mean, the variance is as exact as the sums, in float32, divided by d^2. Among n values d^2 is less
than n, which it nears only where no other value differs from the rest.

That gains where more is reduced than the last dimension, as in batch and group normalization: a row of the last one
lies in one block of threads, and is read once in any case.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tensorflow import make_tensor_proto
from tensorflow.core.framework.attr_value_pb2 import AttrValue
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.core.framework.types_pb2 import DT_FLOAT, DT_INT32

from mixdown.tensorflow.fusing.norms import ANCHOR, constants, keeps_dimensions
from mixdown.tensorflow.fusing.patterns import Match, Wires, matches, pattern
from mixdown.tensorflow.protos.bodies import EXACT, attribute
from mixdown.tensorflow.protos.library import unused
from mixdown.tensorflow.protos.wiring import node_name

MOMENTS = [
    pattern(
        f"squares = SquaredDifference(x, {about})\n{stop}\nmean = Mean(x, axes)\nvariance = Mean(squares, same_axes)"
    )
    for about, stop in (
        ("stopped", "stopped = StopGradient(mean)"),
        ("stopped", "stopped = Identity(mean)"),
        ("mean", ""),
    )
]
"""TensorFlow drops the stop of gradients from graphs that it optimizes, and tracing may leave an Identity."""


@dataclass(frozen=True)
class Variance:
    """A variance that is computed around the first value of each channel; see the file for why."""

    match: Match
    wires: Wires
    reduced: tuple[int, ...]  # which dimensions

    @property
    def name(self) -> str:
        """The node that makes it, and still does."""
        return node_name(self.match["variance"])

    @property
    def squares(self) -> str:
        """The node that makes the squared differences from the mean, which nobody reads any more."""
        return node_name(self.match["squares"])

    @property
    def mean(self) -> str:
        """The node that makes the mean, and still does."""
        return node_name(self.match["mean"])

    @property
    def parts(self) -> tuple[str, str, str]:
        """The nodes that are replaced."""
        return self.squares, self.mean, self.name

    @property
    def onlookers(self) -> set[str]:
        """The nodes that look at the shape of the squares."""
        readers = self.wires.readers[self.match["squares"]]
        return {name for name in readers if self.wires.nodes[name].op == "Shape"}


class OnePass:
    """The nodes of one variance that is computed in the same pass over its values as their mean.

    Args:
        found: the variance.
        taken: the names of all nodes; grows.
    """

    def __init__(self, found: Variance, taken: set[str]) -> None:
        self.found, self._taken = found, taken
        match, out = found.match, found.wires.output
        zeros, ones = self._constant("zeros", 0), self._constant("ones", 1)
        first = self._op("first", "StridedSlice", match["x"], out(zeros), out(ones), out(ones))
        first.attr["Index"].type = DT_INT32
        whole = sum(1 << axis for axis in range(max(found.reduced)) if axis not in found.reduced)
        first.attr["begin_mask"].i = first.attr["end_mask"].i = whole
        moved = self._op("moved", "Sub", match["x"], out(first))
        squares = self._op("squares", "Square", out(moved))
        means = [self._mean(name, out(node)) for name, node in (("mean", moved), ("mean_of_squares", squares))]
        mean = self._op(found.mean, "AddV2", out(first), out(means[0]))
        excess = self._op("excess", "Square", out(means[0]))
        difference = self._op("difference", "Sub", out(means[1]), out(excess))
        variance = self._op(
            found.name, "Relu", out(difference)
        )  # of equal values, rounding may leave less than nothing
        for exact in (moved, squares, mean, excess, difference, variance):
            exact.attr[EXACT].b = True
        self.placed = {
            found.mean: [zeros, ones, first, moved, means[0], mean],
            found.name: [squares, means[1], excess, difference, variance],
        }
        made = {"squares": squares, "mean": mean, "variance": variance}
        self.redirected = {match[value]: out(node) for value, node in made.items()}

    def _op(self, name: str, kind: str, *inputs: str) -> Any:
        """A node; all but those that keep the name of another one are named after the variance."""
        name = name if name in self.found.parts else self._named(name)
        node = NodeDef(name=name, op=kind, input=inputs, device=self._device)
        node.attr["T"].type = DT_FLOAT
        return node

    def _mean(self, name: str, of: str) -> Any:
        node = self._op(name, "Mean", of, self.found.match["axes"])
        for key in ("Tidx", "keep_dims"):
            node.attr[key].CopyFrom(self._before.attr[key])
        return node

    def _constant(self, name: str, number: int) -> Any:
        tensor = make_tensor_proto([number] * (max(self.found.reduced) + 1), DT_INT32)
        attributes = {"dtype": AttrValue(type=DT_INT32), "value": AttrValue(tensor=tensor)}
        return NodeDef(name=self._named(name), op="Const", device=self._device, attr=attributes)

    @property
    def _before(self) -> Any:
        return self.found.wires.nodes[self.found.name]

    @property
    def _device(self) -> str:
        return str(self._before.device)

    def _named(self, name: str) -> str:
        return unused(f"{self.found.name}/{name}", self._taken)


def variances(wires: Wires) -> Iterator[Variance]:
    """Every variance of values whose mean over the same dimensions is computed too, if that gains."""
    for node in wires.body.nodes:
        if node.op == ANCHOR and attribute(node, "T").type == DT_FLOAT:
            start = {"squares": wires.output(node)}
            found = (match for rows in MOMENTS for match in matches(rows, wires, start))
            yield from (Variance(match, wires, axes) for match in islice(found, 1) if (axes := _reduced(match, wires)))


def _reduced(match: Match, wires: Wires) -> tuple[int, ...]:
    """The dimensions that both means reduce and keep: several, or the first one; else none."""
    values = constants(match, wires)
    axes = tuple(int(axis) for axis in values["axes"] or ())
    same = values["axes"] == values["same_axes"] and keeps_dimensions(match, wires, ("mean", "variance"))
    return axes if same and min(axes, default=-1) >= 0 and (len(axes) > 1 or axes == (0,)) else ()
