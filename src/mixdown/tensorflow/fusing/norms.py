"""What the normalizations have in common that are looked for: `Norm`, and ways to find and check them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from tensorflow import make_ndarray
from tensorflow.core.framework import types_pb2

from mixdown.rules.rule_set import kinds
from mixdown.rules.tensorflow_traits import TRAITS
from mixdown.tensorflow.fusing.patterns import Match, Row, Wires, matches
from mixdown.tensorflow.protos.bodies import attribute
from mixdown.tensorflow.protos.wiring import node_name

ANCHOR = "SquaredDifference"
MOST_DIMENSIONS = 8

SPREAD = """
    again_of_NAME = Reshape(row_of_NAME, again_kept_of_NAME)
    tiled_NAME = Tile(again_of_NAME, times_of_NAME)
    spread_NAME = RealDiv(tiled_NAME, count_of_NAME)
"""
"""A mean's gradient goes to all that it was made of, whose sizes are known."""

JOIN = """
    doubled = Mul(two, spread_variance)
    two = Const()
    centred = Sub(x, stopped)
    from_variance = Mul(doubled, centred)
    dx = AddN(to_scaled, spread_mean, from_variance, ...)
"""
TERMS = ("to_scaled", "spread_mean", "from_variance")
"""What is added up to be the gradient of the input, possibly with the gradients of others that read it."""

LARGE = kinds("""
    x squares scaled y dy to_scaled products tiled_mean spread_mean tiled_variance spread_variance doubled centred
    from_variance dx
""")
"""Values as large as what is normalized."""

SUM_MOVES = 2
"""How many of these are moved by a sum that stays."""

Numbers = tuple[float, ...] | None


@dataclass(frozen=True)
class Norm(ABC):
    """One normalization that was found."""

    match: Match
    rows: Sequence[Row]
    epsilon: float
    shared: bool  # whether gradients of others that read the input are added to its own

    outputs: ClassVar[tuple[str, ...]]  # what others may read
    ends: ClassVar[tuple[str, ...]] = ("x", "scale", "offset", "dy")  # what it reads
    unsummed: ClassVar[tuple[str, ...]] = ()  # gradients that TensorFlow would sum up if a weight were no vector
    large: ClassVar[frozenset[str]] = LARGE
    fused_moves: ClassVar[int]  # how many large values are moved once it is one op

    @property
    @abstractmethod
    def staying(self) -> tuple[str, ...]:
        """The rows whose nodes are still needed."""

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
        """How often a value as large as the input is moved, less how often that is done once it is one op."""
        rows = [row for row in self.rows if row.kind not in TRAITS.moves_nothing]
        moved = sum(value in self.large for row in rows for value in (*row.operands, row.name))
        return moved - self.fused_moves - (SUM_MOVES if self.shared else 0)

    def node(self, value: str) -> str:
        """The node that makes a value."""
        return node_name(self.match[value])


Found = TypeVar("Found", bound=Norm)
Check = Callable[[Match, Sequence[Row], Wires], Found | None]


def found(variants: Iterable[Sequence[Row]], wires: Wires, check: Check[Found]) -> Iterator[Found]:
    """Every place where one of several patterns matches and whose numbers pass a check."""
    for node in wires.body.nodes:
        if node.op == ANCHOR and attribute(node, "T").type == types_pb2.DT_FLOAT:
            start = {"squares": wires.output(node)}
            all_ways = (check(match, rows, wires) for rows in variants for match in matches(rows, wires, start))
            yield from [first] if (first := next(filter(None, all_ways), None)) else ()


def spread(name: str) -> str:
    """The lines of a pattern by which the gradient of the mean of that name goes to all that it was made of."""
    return SPREAD.replace("NAME", name)


def replaced(rows: Sequence[Row], by: Mapping[str, str]) -> list[Row]:
    """A pattern without some rows, whose readers read others."""
    left = [row for row in rows if row.name not in by]
    return [row._replace(operands=tuple(by.get(each, each) for each in row.operands)) for row in left]


def constants(match: Match, wires: Wires) -> dict[str, Numbers]:
    """By name, the few numbers of a constant, None for anything else."""
    return {name: _constant(wires, text) for name, text in match.items()}


def are(values: Mapping[str, Numbers], wanted: Mapping[str, Numbers]) -> bool:
    """Whether all constants of a pattern are as wanted, and its small summand is one number."""
    epsilon = values["epsilon"]
    return all(values[name] == wanted[name] for name in wanted.keys() & values.keys()) and len(epsilon or ()) == 1


def keeps_dimensions(match: Match, wires: Wires, names: Iterable[str]) -> bool:
    """Whether means have the rank of what they are made of."""
    return all(attribute(wires.nodes[node_name(match[name])], "keep_dims").b for name in names)


def is_shared(match: Match, wires: Wires) -> bool:
    """Whether gradients of others are added to those of a normalization."""
    return len(wires.operands(wires.nodes[node_name(match["dx"])])) > len(TERMS)


def _constant(wires: Wires, text: str) -> Numbers:
    node = wires.nodes.get(node_name(text))
    if node is None or node.op != "Const":
        return None
    tensor = node.attr["value"].tensor
    sizes = [dim.size for dim in tensor.tensor_shape.dim]
    if sizes not in ([], *([size] for size in range(MOST_DIMENSIONS))):
        return None
    try:
        return tuple(make_ndarray(tensor).ravel().tolist())
    except (TypeError, ValueError):  # a broken file
        return None
