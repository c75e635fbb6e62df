"""A plan written onto copies of protos: dtypes change, casts are inserted, functions get new names. See `apply`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from mixdown.core import Paint
from mixdown.core.paint import casts_of
from mixdown.tensorflow.protos import signatures
from mixdown.tensorflow.protos.bodies import calls
from mixdown.tensorflow.protos.cast_node import cast_node
from mixdown.tensorflow.protos.library import rename_calls, unused
from mixdown.tensorflow.reading.builder import ARGUMENT, RESULT
from mixdown.tensorflow.reading.read import UPGRADES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from mixdown.core import Cast, Plan
    from mixdown.tensorflow.reading.builder import Origin, Use
    from mixdown.tensorflow.reading.read import Reading


class Applied(NamedTuple):
    """The rewritten protos."""

    root: Any  # the outermost GraphDef or FunctionDef
    twins: dict[str, Any]  # the name of every other function that had to change -> its copy, under a new name


def apply(
    reading: Reading,
    plan: Plan,
    new_name: Callable[[str], str] = str,
    also: Collection[str] = (),
    paints: Sequence[Paint] | None = None,
) -> Applied:
    """Rewrite copies of the protos that were read as a plan says.

    Args:
        reading: what the plan's graph was read from.
        plan: what to do.
        new_name: gives the twin of a function its name.
        also: functions that get a twin even if nothing in them changes.
        paints: what each site gets, where that is not what the plan says.
    """
    casts = plan.casts if paints is None else casts_of(plan.graph, paints)
    copies = _Copies(reading, plan.paints if paints is None else paints, plan.policy.low)
    for op, origin in zip(plan.graph.ops, reading.origins, strict=True):
        for site in op.sites:
            if copies.paints[site] is Paint.LOW:
                copies.lower(origin, plan.graph.sites[site].attribute)
    for cast in casts:
        copies.insert(cast)
    return copies.twinned(new_name, also)


class _Copies:
    """Copies of the bodies, made when first changed."""

    def __init__(self, reading: Reading, paints: Sequence[Paint], low: str) -> None:
        self.reading, self.paints = reading, paints
        self.dtypes = {Paint.LOW: low, Paint.FULL: "float32"}
        self.low = signatures.LOW_TYPES[low]
        self.copies: dict[int, Any] = {}
        self.names: dict[int, set[str]] = {}

    def copy(self, body: int) -> Any:
        """The copy of a body's proto."""
        if body not in self.copies:
            original = self.reading.bodies[body].proto
            self.copies[body] = type(original)()
            self.copies[body].CopyFrom(original)
        return self.copies[body]

    def nodes(self, body: int) -> Any:
        """The nodes of a body's copy."""
        copy = self.copy(body)
        return copy.node_def if self.reading.bodies[body].function else copy.node

    def lower(self, origin: Origin, attribute: str) -> None:
        """Give one site the 16-bit dtype."""
        if origin.node == ARGUMENT:
            self.copy(origin.body).signature.input_arg[origin.position].type = self.low
        elif origin.node == RESULT:
            self.copy(origin.body).signature.output_arg[origin.position].type = self.low
        else:
            self._lower_node(self.nodes(origin.body)[origin.node], attribute)

    def _lower_node(self, node: Any, attribute: str) -> None:
        if node.op in self.reading.library:
            return  # a function called by name has no type attributes: its twin's signature says it all
        if node.op in UPGRADES:
            node.op = UPGRADES[node.op]
            node.attr["U"].type = signatures.FLOAT
        name, _, index = attribute.rstrip("]").partition("[")
        if index:
            node.attr[name].list.type[int(index)] = self.low
        else:
            node.attr[name].type = self.low

    def insert(self, cast: Cast) -> None:
        """Put one cast behind a tensor and let its consumers of the other paint read that."""
        graph = self.reading.graph
        tensor, uses = graph.tensors[cast.tensor], self.reading.uses[cast.tensor]
        crossing = [use for use, site in zip(uses, tensor.consumers, strict=True) if self.paints[site] is cast.to]
        body, maker = crossing[0].body, self.reading.origins[graph.sites[tensor.site].op]
        node, _, port = tensor.name.rpartition(":")
        name = self._fresh(body, f"{node}/cast_{port}_to_{self.dtypes[cast.to]}")
        types = (signatures.FLOAT, self.low) if cast.to is Paint.LOW else (self.low, signatures.FLOAT)
        device = self.nodes(body)[maker.node].device if maker.node >= 0 else ""
        self.nodes(body).append(cast_node(name, self._text(crossing[0]), *types, device))
        for use in crossing:
            self._redirect(use, f"{name}:y:0" if self.reading.bodies[body].function else name)

    def _fresh(self, body: int, wanted: str) -> str:
        if body not in self.names:
            self.names[body] = {node.name for node in self.reading.bodies[body].nodes}
        return unused(wanted, self.names[body])

    def _text(self, use: Use) -> str:
        """How the original names the tensor that is read there."""
        body = self.reading.bodies[use.body]
        return body.results[use.position][1] if use.node == RESULT else body.nodes[use.node].input[use.position]

    def _redirect(self, use: Use, output: str) -> None:
        if use.node == RESULT:
            self.copy(use.body).ret[self.reading.bodies[use.body].results[use.position][0]] = output
        else:
            self.nodes(use.body)[use.node].input[use.position] = output

    def twinned(self, new_name: Callable[[str], str], also: Collection[str]) -> Applied:
        """Rename every function that changed, and let its callers, which change by that, call it by the new name."""
        tree = [body.function for body in self.reading.bodies]
        number = {
            name: index for index, name in reversed([*enumerate(tree)])
        }  # a root in a circle of calls is there twice
        calling = [list(calls(body.nodes, self.reading.library)) for body in self.reading.bodies]
        called = [{number[name] for _, names in made for name in names} for made in calling]
        changed = _with_callers({0, *self.copies, *(number[name] for name in also)}, called)
        twins = {tree[index]: new_name(tree[index]) for index in sorted(changed) if tree[index]}
        for index in sorted(changed):
            nodes = self.nodes(index)
            rename_calls([nodes[position] for position, _ in calling[index]], twins)
        for name, twin in twins.items():
            self.copy(number[name]).signature.name = twin
        return Applied(self.copy(0), {name: self.copies[number[name]] for name in twins if name != tree[0]})


def _with_callers(changed: set[int], called: Sequence[set[int]]) -> set[int]:
    """These bodies, and all that call one of them, directly or not."""
    callers: list[list[int]] = [[] for _ in called]
    for caller, callees in enumerate(called):
        for callee in callees:
            callers[callee].append(caller)
    found, queue = set(changed), sorted(changed)
    for index in queue:
        more = set(callers[index]) - found
        found |= more
        queue.extend(sorted(more))
    return found
