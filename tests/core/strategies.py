"""Random graphs and policies for the laws, free of any framework. Start with `graphs`.

A graph is grown from strings of bytes, one an op: each byte is one choice (see `Dice`), and smaller bytes give plainer
ops, so that a broken law is shown on a small graph. Values flow from ops to ops that the host lists later
and, through ties, between any two: what a host reads from loops, calls and tensor lists.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from zlib import crc32

from hypothesis import strategies as st

from mixdown.core import Agreement, Category, Graph, Level, Op, Policy, Role, Site, Tensor, Tie
from mixdown.core.graph import Constant
from mixdown.core.override import Override
from mixdown.core.policy import STRATEGIES
from mixdown.rules import rule_sets_for

KINDS = (
    *("MatMul", "Relu", "Tanh", "Exp", "Identity", "AddV2", "Lgamma", "Conv2D", "Neg", "Mul", "Softmax", "Mean"),
    *("Sin", "Round"),
)
ROLES = (*[Role.PLAIN] * 8, Role.CONDUIT, Role.VARIABLE_READ, Role.CONVERSION, Role.TRUNCATION)
CONSTANTS = (*[None] * 12, *(Constant(x, x, whole=x == int(x)) for x in (0.5, -1e9, 1e-12, -3.4028235e38)))
FETCHED = "it is fetched"
genes = st.binary(min_size=20, max_size=20)


class Dice:
    """Small choices read off a string of bytes; all is zero after its end."""

    def __init__(self, gene: bytes) -> None:
        self.rolls = iter(gene)

    def roll(self, sides: int) -> int:
        """A number below `sides`."""
        return next(self.rolls, 0) % sides

    def rarely(self) -> bool:
        """True once in eight."""
        return self.roll(8) == 7

    def some(self, items: list[int], most: int) -> list[int]:
        """Up to `most` of the items, sorted."""
        return sorted({items[self.roll(len(items))] for _ in range(self.roll(most + 1))}) if items else []


def graphs(*, ties: bool = True, followers: bool = True) -> st.SearchStrategy[Graph]:
    """Graphs of up to 14 ops; some ops have two sites, some sites are tied, some ties have a follower."""
    tie_genes = st.lists(genes, max_size=2) if ties else st.just([])
    return st.builds(_grow, st.lists(genes, min_size=1, max_size=14), tie_genes, followers=st.just(followers))


def _grow(op_genes: list[bytes], tie_genes: list[bytes], *, followers: bool) -> Graph:
    dice = [Dice(gene) for gene in op_genes]
    names = sorted(range(len(dice)), key=lambda index: (dice[index].roll(4), index))  # not the host's order
    ops: list[Op] = []
    sites: list[Site] = []
    for position in names:
        _add_op(dice[position], position, ops, sites)
    tensors = [_tensor(dice[ops[its.op].position], ops, sites, site) for site, its in enumerate(sites)]
    tied = [_tie(Dice(gene), sites, followers=followers) for gene in tie_genes]
    flows = [(tie.sites[0], site) for tie in tied for site in tie.sites[1:]]
    return sized(Graph(tuple(ops), tuple(sites), tuple(t for t in tensors if t.consumers), tuple(tied), tuple(flows)))


def sized(graph: Graph) -> Graph:
    """The graph with a shape for every tensor, told by its name: a cast of it is as large."""
    sizes = [crc32(tensor.name.removesuffix("/cast").encode()) % 5 for tensor in graph.tensors]
    return replace(graph, shapes=tuple((1 << size,) for size in sizes))


def _add_op(dice: Dice, position: int, ops: list[Op], sites: list[Site]) -> None:
    kind = KINDS[dice.roll(len(KINDS))]
    attributes = ("T", "U") if dice.rarely() else ("T",)
    numbers = tuple(range(len(sites), len(sites) + len(attributes)))
    for attribute in attributes:
        legal, kernel = not dice.rarely(), not dice.rarely()
        sites.append(Site(len(ops), attribute, legal, kernel, ROLES[dice.roll(len(ROLES))], whole=dice.rarely()))
    ops.append(Op(f"op{len(ops):02}", kind, "", numbers, FETCHED if dice.rarely() else None, position))


def _tensor(dice: Dice, ops: list[Op], sites: list[Site], site: int) -> Tensor:
    here = ops[sites[site].op]
    later = [other for other, its in enumerate(sites) if ops[its.op].position > here.position]
    readers, constant = tuple(dice.some(later, 3)), CONSTANTS[dice.roll(len(CONSTANTS))]
    return Tensor(f"{here.name}:{sites[site].attribute}", site, readers, constant=constant)


def _tie(dice: Dice, sites: list[Site], *, followers: bool) -> Tie:
    everyone = list(range(len(sites)))
    agreement = list(Agreement)[dice.roll(2)]
    chosen = dice.some(everyone, 4) or [0]
    alike = [site for site in chosen if _carries(sites[site]) is _carries(sites[chosen[0]])]
    led = dice.some(everyone, 1) if followers and agreement is Agreement.UNANIMOUS else []
    frozen = agreement is Agreement.SPREAD and dice.rarely()
    return Tie(tuple(alike), agreement, FETCHED if frozen else None, tuple(site for site in led if site not in alike))


def _carries(site: Site) -> bool:
    """Whether a site is an end of a call: these are tied among themselves only."""
    return site.role is Role.CONDUIT


def policies() -> st.SearchStrategy[Policy]:
    """Policies over every rule set, low dtype, strategy and level."""
    lows, rules = st.sampled_from(["float16", "bfloat16"]), st.sampled_from(rule_sets_for("TensorFlow"))
    strategies = st.sampled_from(STRATEGIES)
    return st.builds(Policy, low=lows, rules=rules, strategy=strategies, level=st.sampled_from(Level))


def overrides() -> st.SearchStrategy[Override]:
    """Overrides with any combination of selectors."""
    text = st.sampled_from(["", "dense", "encoder/attention", "^a.*z$", "äö"])
    kinds = st.sampled_from(["", "Exp", "MatMul", "MyOwnOp"])
    fields: dict[str, Any] = {"kind": kinds, "name": text, "scope": text, "attribute": text}
    chosen = st.fixed_dictionaries(fields).filter(lambda said: bool(said["kind"] or said["name"] or said["scope"]))
    return st.tuples(st.sampled_from(Category), chosen).map(lambda both: Override(both[0], **both[1]))
