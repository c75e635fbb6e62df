"""A plan onto protos: types changed, casts inserted, functions twinned. Start with `apply`. Nothing is decided here."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from mixdown.core import Paint
from mixdown.tensorflow.protos import signatures
from mixdown.tensorflow.protos.bodies import CALLS, calls
from mixdown.tensorflow.reading.builder import ARGUMENT, RESULT
from mixdown.tensorflow.reading.read import UPGRADES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from mixdown.core import Cast, Plan
    from mixdown.tensorflow.reading.builder import Origin, Use
    from mixdown.tensorflow.reading.read import Reading


class Applied(NamedTuple):
    """The rewritten protos."""

    root: Any  # the outermost GraphDef or FunctionDef
    twins: dict[str, Any]  # the name of every other function that had to change -> its copy, under a new name


def apply(reading: Reading, plan: Plan, new_name: Callable[[str], str] = str, also: Collection[str] = ()) -> Applied:
    """Write a plan down, on copies: the protos that were read stay as they are.

    Args:
        reading: what the plan's graph was read from.
        plan: what to do.
        new_name: gives the twin of a function its name.
        also: functions that get a twin even if nothing in them changes.
    """
    sheets = _Sheets(reading, plan)
    for op, origin in zip(plan.graph.ops, reading.origins, strict=True):
        for site in op.sites:
            if plan.paints[site] is Paint.LOW:
                sheets.lower(origin, plan.graph.sites[site].attribute)
    for cast in plan.casts:
        sheets.insert(cast)
    return sheets.twinned(new_name, also)


class _Sheets:
    """Copies of the bodies, made when first written to."""

    def __init__(self, reading: Reading, plan: Plan) -> None:
        self.reading, self.plan = reading, plan
        self.low = signatures.LOW_TYPES[plan.policy.low]
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
        """Give one site the low dtype."""
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
        tensor, uses = self.plan.graph.tensors[cast.tensor], self.reading.uses[cast.tensor]
        crossing = [use for use, site in zip(uses, tensor.consumers, strict=True) if self.plan.paints[site] is cast.to]
        body = crossing[0].body
        node = self._add_cast(body, self._text(crossing[0]), tensor.name, cast.to)
        output = f"{node.name}:y:0" if self.reading.bodies[body].function else node.name
        maker = self.reading.origins[self.plan.graph.sites[tensor.site].op]
        if maker.node >= 0:
            node.device = self.nodes(body)[maker.node].device
        for use in crossing:
            self._redirect(use, output)

    def _add_cast(self, body: int, source: str, tensor: str, to: Paint) -> Any:
        name, _, port = tensor.rpartition(":")
        dtype = self.plan.policy.low if to is Paint.LOW else "float32"
        unique = self._fresh(body, f"{name}/cast_{port}_to_{dtype}")
        types = (signatures.FLOAT, self.low) if to is Paint.LOW else (self.low, signatures.FLOAT)
        node = self.nodes(body).add(name=unique, op="Cast", input=[source])
        node.attr["SrcT"].type, node.attr["DstT"].type = types
        node.attr["Truncate"].b = False
        return node

    def _fresh(self, body: int, wanted: str) -> str:
        if body not in self.names:
            self.names[body] = {node.name for node in self.reading.bodies[body].nodes}
        return unused(wanted, self.names[body])

    def _text(self, use: Use) -> str:
        """How the original names the tensor it reads there."""
        body = self.reading.bodies[use.body]
        return body.results[use.position][1] if use.node == RESULT else body.nodes[use.node].input[use.position]

    def _redirect(self, use: Use, output: str) -> None:
        if use.node == RESULT:
            self.copy(use.body).ret[self.reading.bodies[use.body].results[use.position][0]] = output
        else:
            self.nodes(use.body)[use.node].input[use.position] = output

    def twinned(self, new_name: Callable[[str], str], also: Collection[str]) -> Applied:
        """Rename every function that changed, and let its callers, which change by that, call the new one."""
        tree = [body.function for body in self.reading.bodies]
        number = {name: index for index, name in reversed([*enumerate(tree)])}  # who calls in a circle is there twice
        calling = [_calls(body.nodes, self.reading.library) for body in self.reading.bodies]
        changed = _with_callers({0, *self.copies, *(number[name] for name in also)}, calling, number)
        twins = {tree[index]: new_name(tree[index]) for index in sorted(changed) if tree[index]}
        for index in sorted(changed):
            for position in {position for positions in calling[index].values() for position in positions}:
                _call_twins(self.nodes(index)[position], twins)
        for name, twin in twins.items():
            self.copy(number[name]).signature.name = twin
        return Applied(self.copy(0), {name: self.copies[number[name]] for name in twins if name != tree[0]})


def _calls(nodes: Any, library: Mapping[str, Any]) -> dict[str, list[int]]:
    """Function name -> the nodes that call it."""
    out: dict[str, list[int]] = {}
    for index, names in calls(nodes, library):
        for name in names:
            out.setdefault(name, []).append(index)
    return out


def _with_callers(changed: set[int], calling: Sequence[Mapping[str, list[int]]], number: Mapping[str, int]) -> set[int]:
    """These bodies, and all that call one of them, directly or not."""
    callers: list[list[int]] = [[] for _ in calling]
    for caller, called in enumerate(calling):
        for name in called:
            callers[number[name]].append(caller)
    found, queue = set(changed), sorted(changed)
    for index in queue:
        more = set(callers[index]) - found
        found |= more
        queue.extend(sorted(more))
    return found


def _call_twins(node: Any, twins: Mapping[str, str]) -> None:
    for attribute in CALLS.get(node.op, ()):
        value = node.attr[attribute]
        for function in value.list.func if attribute == "branches" else [value.func]:
            function.name = twins.get(function.name, function.name)
    node.op = twins.get(node.op, node.op)


def unused(wanted: str, taken: set[str]) -> str:
    """The wanted name, numbered if it is taken; it is taken from now on."""
    name = wanted
    for number in count(1):
        if name not in taken:
            break
        name = f"{wanted}_{number}"
    taken.add(name)
    return name
