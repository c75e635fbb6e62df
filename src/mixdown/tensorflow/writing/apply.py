"""A plan written onto copies of protos: dtypes change, casts are inserted, functions get new names. See `apply`."""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from copy import deepcopy
from functools import cached_property
from typing import Any

from mixdown.core import Cast, Paint, Plan
from mixdown.core.paint import casts_of
from mixdown.core.plan import reads_of
from mixdown.tensorflow.protos import signatures
from mixdown.tensorflow.protos.bodies import Body, calls, cast_node, reached
from mixdown.tensorflow.protos.library import rename_calls, unused
from mixdown.tensorflow.reading.builder import ARGUMENT, RESULT, Origin
from mixdown.tensorflow.reading.read import UPGRADES, Reading

BARRIER = "XlaOptimizationBarrier"
"""An op of compiled functions: what it is given is stored, and the compiler looks behind it from neither side."""


Applied = tuple[Any, dict[str, Any]]
"""The outermost GraphDef or FunctionDef, and by the names of all other functions that had to change their copies."""


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
    paints = plan.paints if paints is None else paints
    reads = reads_of(plan.view, paints)
    copies = _Copies(reading, paints, reads, plan.policy.low)
    for op, origin in zip(plan.graph.ops, reading.origins, strict=True):
        for site in op.sites:
            if copies.paints[site] is Paint.LOW and reads[site] is Paint.LOW:
                copies.lower(origin, plan.graph.sites[site].attribute)
    for tensor, made in enumerate(plan.graph.tensors):
        if copies.paints[made.site] is Paint.LOW and reads[made.site] is Paint.FULL:
            copies.round(tensor)
    for tensor in plan.stored:
        copies.store(tensor)
    for cast in casts_of(plan.graph, paints, reads):
        copies.insert(cast)
    return copies.twinned(new_name, also)


class EditedBody:
    """A GraphDef or FunctionDef that gets casts and other inputs."""

    def __init__(self, proto: Any, body: Body) -> None:
        self.proto, self.body = proto, body
        self.all_nodes = proto.node_def if body.function else proto.node

    @cached_property
    def _names(self) -> set[str]:
        return {node.name for node in self.all_nodes}

    def text(self, node: int, position: int) -> str:
        """How an input of a node, or a result of the function if `node` is RESULT, names what it reads."""
        if node == RESULT:
            return str(self.proto.ret[self.body.results[position][0]])
        return str(self.all_nodes[node].input[position])

    def redirect(self, node: int, position: int, text: str) -> None:
        """Let an input or a result, as for `text`, read something else."""
        if node == RESULT:
            self.proto.ret[self.body.results[position][0]] = text
        else:
            self.all_nodes[node].input[position] = text

    def add_barrier(self, text: str, name: str, dtype: int) -> str:
        """Let the compiler store what `text` names; returns the text that names the value from there on."""
        barrier = self.all_nodes.add(name=unused(name, self._names), op=BARRIER, input=[text])
        barrier.attr["T"].list.type.append(dtype)
        return f"{barrier.name}:output:0" if self.body.function else barrier.name

    def add_cast(self, text: str, name: str, from_type: int, to_type: int, device: str = "") -> str:
        """Add a cast of what `text` names; returns the text that names its output."""
        name = unused(name, self._names)
        self.all_nodes.append(cast_node(name, text, from_type, to_type, device))
        return f"{name}:y:0" if self.body.function else name


class _Copies:
    """Copies of the bodies, made when first changed."""

    def __init__(self, reading: Reading, paints: Sequence[Paint], reads: Sequence[Paint], low: str) -> None:
        self.reading, self.paints, self.reads = reading, paints, reads
        self.names = {Paint.LOW: low, Paint.FULL: "float32"}
        self.dtypes = {Paint.LOW: signatures.LOW_TYPES[low], Paint.FULL: signatures.FLOAT}
        self.low = self.dtypes[Paint.LOW]
        self.copies: dict[int, EditedBody] = {}

    def copy(self, body: int) -> EditedBody:
        """The copy of a body."""
        if body not in self.copies:
            original = self.reading.bodies[body]
            self.copies[body] = EditedBody(deepcopy(original.proto), original)
        return self.copies[body]

    def lower(self, origin: Origin, attribute: str) -> None:
        """Give one site the 16-bit dtype."""
        copy = self.copy(origin.body)
        if origin.node == ARGUMENT:
            copy.proto.signature.input_arg[origin.position].type = self.low
        elif origin.node == RESULT:
            copy.proto.signature.output_arg[origin.position].type = self.low
        else:
            self._lower_node(copy.all_nodes[origin.node], attribute)

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

    def store(self, tensor: int) -> None:
        """Let all readers of a 16-bit tensor read what the compiler stores of it."""
        made, uses = self.reading.graph.tensors[tensor], self.reading.uses[tensor]
        if self.paints[made.site] is Paint.FULL:
            return
        body, *first = uses[0]
        copy = self.copy(body)
        node, _, port = made.name.rpartition(":")
        output = copy.add_barrier(copy.text(*first), f"{node}/stored_{port}", self.low)
        for _, reader, position in uses:
            copy.redirect(reader, position, output)

    def round(self, tensor: int) -> None:
        """Let all readers of what a sum makes in float32 read it in 16 bits."""
        self._convert(tensor, self.reading.uses[tensor], Paint.FULL, Paint.LOW)

    def insert(self, cast: Cast) -> None:
        """Put one cast behind a tensor and let its consumers of the other paint read that."""
        made, uses = self.reading.graph.tensors[cast.tensor], self.reading.uses[cast.tensor]
        crossing = [use for use, site in zip(uses, made.consumers, strict=True) if self.reads[site] is cast.to]
        self._convert(cast.tensor, crossing, self.paints[made.site], cast.to)

    def _convert(self, tensor: int, uses: Sequence[tuple[int, int, int]], made: Paint, to: Paint) -> None:
        graph = self.reading.graph
        body, *first = uses[0]
        copy, maker = self.copy(body), self.reading.origins[graph.sites[graph.tensors[tensor].site].op].node
        node, _, port = graph.tensors[tensor].name.rpartition(":")
        types = self.dtypes[made], self.dtypes[to]
        device = copy.all_nodes[maker].device if maker >= 0 else ""
        output = copy.add_cast(copy.text(*first), f"{node}/cast_{port}_to_{self.names[to]}", *types, device)
        for _, reader, position in uses:
            copy.redirect(reader, position, output)

    def twinned(self, new_name: Callable[[str], str], also: Collection[str]) -> Applied:
        """Rename every function that changed, and let its callers, which change by that, call it by the new name."""
        tree = [body.function for body in self.reading.bodies]
        number = {name: at for at, name in reversed([*enumerate(tree)])}  # a root in a circle of calls is there twice
        calling = [list(calls(body.nodes, self.reading.library)) for body in self.reading.bodies]
        called = [{number[name] for _, names in made for name in names} for made in calling]
        changed = _with_callers({0, *self.copies, *(number[name] for name in also)}, called)
        twins = {tree[index]: new_name(tree[index]) for index in sorted(changed) if tree[index]}
        for index in sorted(changed):
            nodes = self.copy(index).all_nodes
            rename_calls([nodes[position] for position, _ in calling[index]], twins)
        for name, twin in twins.items():
            self.copies[number[name]].proto.signature.name = twin
        others = {name: self.copies[number[name]].proto for name in twins if name != tree[0]}
        return self.copies[0].proto, others


def _with_callers(changed: set[int], called: Sequence[set[int]]) -> set[int]:
    """These bodies, and all that call one of them, directly or not."""
    callers = defaultdict(list)
    for caller, callees in enumerate(called):
        for callee in callees:
            callers[callee].append(caller)
    return set(reached(changed, lambda index: callers[index]))
