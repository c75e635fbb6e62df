"""Copies of a function and of all it calls, in float32 or as a policy has them, made to be probed: `copy_tree`.

A copy differs in a few ways from what would run otherwise, so that probes can see everything: XLA does not compile it,
loops run one iteration after the other, random ops without a seed get one, and, where the run is an extra one, checks
and assertions let values pass, because what follows a failed check would not run.
"""

from collections.abc import Mapping
from itertools import count
from typing import Any, NamedTuple
from zlib import crc32

from mixdown.core import Paint, Plan, Policy, make_plan
from mixdown.core.gc_pause import collector_paused
from mixdown.tensorflow.calls.twins import Registered
from mixdown.tensorflow.numerics.probing.probed_function import ProbedFunction
from mixdown.tensorflow.protos.bodies import CALLS, GROUP, LOOPS, MUST_COMPILE, compiled, function_body, tree_of
from mixdown.tensorflow.protos.library import mentioned
from mixdown.tensorflow.protos.wiring import node_name
from mixdown.tensorflow.reading.read import Reading, read
from mixdown.tensorflow.writing.apply import apply
from mixdown.tensorflow.writing.planning import read_and_plan

CHECKS = frozenset({"CheckNumerics", "CheckNumericsV2"})
WITH_EFFECTS = {kind: kind.removeprefix("Stateless") for kind in CALLS if kind.startswith("Stateless")}
WITH_EFFECTS["PartitionedCall"] = "StatefulPartitionedCall"
"""Ops that call functions without effects, and what they become once these functions have probes, which are effects."""

_numbers = count(1)


class ProbedTree(NamedTuple):
    """The copies, the outermost first."""

    functions: tuple[ProbedFunction, ...]
    plan: Plan  # also for a tree that runs in float32: what the policy would do
    callers: Mapping[int, tuple[int, str]]  # number of a function -> that of its first caller, and the calling node

    @property
    def name(self) -> bytes:
        """The outermost function."""
        return self.functions[0].name.encode()

    @property
    def originals(self) -> dict[str, str]:
        """Copy -> original."""
        return {function.name: function.original for function in self.functions}


def copy_tree(context: Any, name: str, device: str, policy: Policy, *, full: bool, lenient: bool) -> ProbedTree:
    """Copy a function and all it calls, by the policy, or in float32 if `full`; if `lenient`, without checks."""
    with collector_paused():
        reading, plan = _planned(context, name, device, policy)
        paints = (Paint.FULL,) * len(plan.paints) if full else plan.paints
        names = [body.function for body in reading.bodies]
        root, others = apply(reading, plan, lambda name: f"{name}__probed_{next(_numbers)}", names, paints)
    functions = {names[0]: root, **others}
    for function in functions.values():
        _prepare(function)
        if lenient:
            _drop_checks(function)
    copied = {function.signature.name: function for function in functions.values()}
    known = [{node.name for node in body.nodes} for body in reading.bodies]
    probed = tuple(
        ProbedFunction(number, functions[body], body, copied, known[number]) for number, body in enumerate(names)
    )
    return ProbedTree(probed, plan, _callers(probed))


def _planned(context: Any, name: str, device: str, policy: Policy) -> tuple[Reading, Plan]:
    """A function and its plan, with normalizations as they run: on one op each, unless XLA compiles any of it."""
    known, library = Registered(context), _WithoutXla(context)
    body = function_body(library[name])
    if not compiled(tree_of(function_body(known[name]), known), known):
        return read_and_plan(body, library, policy, default_device=device)[:2]
    reading = read(body, library, policy, default_device=device)
    return reading, make_plan(reading.graph, policy)


class _WithoutXla(Registered):
    """The functions that a context knows, without the marks that let XLA compile them."""

    def fetch(self, name: str) -> Any:
        function = super().fetch(name)
        for owner in (function, *function.node_def):
            _drop(owner, MUST_COMPILE)
        return function


def _prepare(function: Any) -> None:
    """Change a copy as the top of this file says."""
    _drop(function, GROUP)  # or TensorFlow may choose an original in its place
    for node in function.node_def:
        if node.op in LOOPS:
            node.attr["parallel_iterations"].i = 1
        if "seed" in node.attr and "seed2" in node.attr and not (node.attr["seed"].i or node.attr["seed2"].i):
            node.attr["seed"].i, node.attr["seed2"].i = 1, crc32(node.name.encode())
        node.op = WITH_EFFECTS.get(node.op, node.op)


def _drop_checks(function: Any) -> None:
    """Replace checks and assertions by nodes that let every value pass."""
    for node in function.node_def:
        if node.op in CHECKS:
            node.op = "Identity"
            _drop(node, "message")
        elif node.op == "Assert":
            node.op = "NoOp"
            node.input[:] = sorted({f"^{node_name(text)}" for text in node.input})
            for attribute in ("T", "summarize"):
                _drop(node, attribute)


def _drop(owner: Any, attribute: str) -> None:
    if attribute in owner.attr:
        del owner.attr[attribute]


def _callers(functions: tuple[ProbedFunction, ...]) -> dict[int, tuple[int, str]]:
    number = {function.function.signature.name: function.number for function in functions}
    out: dict[int, tuple[int, str]] = {}
    for function in functions:
        for node in sorted(function.nodes, key=lambda node: function.order[node.name]):
            for name in mentioned([node]) & number.keys():
                out.setdefault(number[name], (function.number, node.name))
    return out
