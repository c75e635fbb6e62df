"""Normalizations of a function or graph, and of all it calls, put onto one op each: `fused`.

Where XLA compiles them they stay spelled out, and only their variances are computed otherwise.
"""

from collections import ChainMap
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple, Protocol

from mixdown.core import Policy
from mixdown.rules import Category
from mixdown.rules.layer_names import LayerScopes
from mixdown.tensorflow.fusing.batch_norms import BatchNorm, batch_norms
from mixdown.tensorflow.fusing.fused_nodes import FORWARD
from mixdown.tensorflow.fusing.layer_norms import layer_norms
from mixdown.tensorflow.fusing.norm_nodes import BatchNormNodes, LayerNormNodes
from mixdown.tensorflow.fusing.norms import ANCHOR
from mixdown.tensorflow.fusing.one_pass import OnePass, variances
from mixdown.tensorflow.fusing.patterns import Wires
from mixdown.tensorflow.fusing.surroundings import Surroundings
from mixdown.tensorflow.protos import bodies
from mixdown.tensorflow.protos.bodies import Body
from mixdown.tensorflow.protos.library import replace_all

Name = tuple[str, str]
"""A normalization: the function it is in, "" for the outermost graph, and the node that makes its result."""


class Replacement(Protocol):
    """Nodes that take the place of others."""

    @property
    def placed(self) -> Mapping[str, Sequence[Any]]:
        """By the name of a node that they replace, the nodes in its place."""

    @property
    def redirected(self) -> Mapping[str, str]:
        """Which values are read in place of others, "" for terms of a sum that has fewer now."""


class FusedOp(NamedTuple):
    """One normalization that became two ops, or one variance that is computed otherwise."""

    function: str
    norm: str  # the node that made its result
    name: str  # its op
    gradient: str  # the op that computes its gradients, "" for a variance
    parts: tuple[str, ...]  # the ops that they replace
    moves: int  # how often these moved a value as large as its input, less how often the two ops do


class Fused(NamedTuple):
    """A body and the functions that it calls, with fewer ops."""

    tree: Sequence[Body]  # the outermost first
    library: Mapping[str, Any]
    ops: tuple[FusedOp, ...] = ()


def fused(
    body: Body,
    library: Mapping[str, Any],
    policy: Policy,
    preserved: Collection[str] = (),
    without: Collection[Name] = (),
) -> Fused:
    """Copies of a body and of the functions it calls in which normalizations are one op, if the policy permits that.

    What XLA compiles stays spelled out, which costs nothing there, but computes a variance in one pass with the mean.

    Args:
        body: the outermost graph, or function.
        library: the functions that may be called, by name.
        policy: whose lists and rules decide. A rule that names a part of a normalization keeps it as it is.
        preserved: names of nodes of the outermost body that must stay.
        without: normalizations to leave alone.
    """
    tree = bodies.tree_of(body, library)
    if not _permits(policy):
        return Fused(tree, library)
    compiled = bodies.compiled(tree, library)
    copies = [
        (_in_one_pass if index in compiled else _on_one_op)(one, policy, preserved if index == 0 else (), without)
        if any(node.op == ANCHOR for node in one.nodes)
        else (one, [])
        for index, one in enumerate(tree)
    ]
    changed = {copy.function: copy.proto for copy, ops in copies if ops and copy.function}
    known: Mapping[str, Any] = ChainMap(changed, library) if changed else library  # type: ignore[arg-type]  # only read
    return Fused([copy for copy, _ in copies], known, tuple(op for _, ops in copies for op in ops))


def _permits(policy: Policy) -> bool:
    """Whether a policy lets plans differ from TensorFlow's own, and normalizations be 16-bit."""
    base = policy.untuned
    listed = base.categories().get(FORWARD, Category.BARRIER)
    return base.rules == "documented" and base.strategy == "optimal" and listed not in (Category.BARRIER, Category.DENY)


def _in_one_pass(
    body: Body, policy: Policy, preserved: Collection[str], without: Collection[Name]
) -> tuple[Body, list[FusedOp]]:
    wires = Wires(body)
    around, scopes, taken = Surroundings(wires, preserved), LayerScopes(wires.nodes), set(wires.nodes)
    new = [
        OnePass(each, taken)
        for each in variances(wires)
        if (body.function, each.name) not in without
        and not _is_named(each.parts, policy, wires, scopes)
        and around.may_replace(each.parts, {each.mean, each.name}, each.onlookers)
    ]
    ops = [FusedOp(body.function, each.found.name, each.found.name, "", (each.found.squares,), 0) for each in new]
    gone = {name for each in new for name in each.found.parts}
    return (_written(body, wires, gone, new) if new else body), ops


def _is_named(names: Collection[str], policy: Policy, wires: Wires, scopes: LayerScopes) -> bool:
    """Whether a rule of the policy is about one of these nodes."""
    return any(rule.matches(wires.nodes[name].op, name, scopes) for rule in policy.overrides for name in names)


def _on_one_op(
    body: Body, policy: Policy, preserved: Collection[str], without: Collection[Name]
) -> tuple[Body, list[FusedOp]]:
    wires = Wires(body)
    around, scopes, taken = Surroundings(wires, preserved), LayerScopes(wires.nodes), set(wires.nodes)
    gone: set[str] = set()
    new: list[BatchNormNodes | LayerNormNodes] = []
    ops = []
    for norm in (*batch_norms(wires), *layer_norms(wires)):
        its = around.going(norm)
        named = _is_named(its, policy, wires, scopes)
        if (body.function, norm.name) in without or named or not around.may_go(norm, its) or its & gone:
            continue
        gone |= its
        nodes = BatchNormNodes if isinstance(norm, BatchNorm) else LayerNormNodes
        new.append(nodes(norm, wires, taken))
        ops.append(FusedOp(body.function, norm.name, new[-1].name, new[-1].gradient, tuple(sorted(its)), norm.moves))
    return (_written(body, wires, gone, new) if ops else body), ops


def _written(body: Body, wires: Wires, gone: Collection[str], new: Sequence[Replacement]) -> Body:
    """A copy of a body in which some nodes are replaced by others."""
    placed = {name: nodes for one in new for name, nodes in one.placed.items()}
    instead = {old: text for one in new for old, text in one.redirected.items()}
    left = [each for node in body.nodes for each in (placed.get(node.name, ()) if node.name in gone else (node,))]
    nodes = [_rewired(node, wires, instead) for node in left]
    proto = type(body.proto)()
    proto.CopyFrom(body.proto)
    replace_all(proto.node_def if body.function else proto.node, nodes)
    if not body.function:
        return bodies.graph_body(proto)
    for name, text in body.proto.ret.items():
        proto.ret[name] = instead.get(text, text)
    return bodies.function_body(proto)


def _rewired(node: Any, wires: Wires, instead: Mapping[str, str]) -> Any:
    """A node that reads other values; those that have nothing in their place are terms of a sum that are gone."""
    read = wires.operands(node)
    if instead.keys().isdisjoint(read):
        return node
    copy = deepcopy(node)
    waits = [text for text in node.input if text[:1] == "^"]
    copy.input[:] = [text for text in (instead.get(each, each) for each in read) if text] + waits
    if len(copy.input) < len(node.input):
        copy.attr["N"].i -= len(node.input) - len(copy.input)
    return copy
