"""GraphDefs and FunctionDefs into the core's Graph: `read`.

The outermost body and every function it calls become one Graph. The sites of calls and loops are tied to the arguments
and results of the functions they call, so that a decision crosses function boundaries.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from tensorflow.core.framework import types_pb2

from mixdown.core import Agreement, Category, Graph, Op, Policy, Role, Site, Tie
from mixdown.core.constants import described
from mixdown.core.graph import Constant
from mixdown.errors import GraphError
from mixdown.tensorflow.machine.devices import default_type, device_type
from mixdown.tensorflow.protos import bodies, kernels, signatures
from mixdown.tensorflow.protos.bodies import Body
from mixdown.tensorflow.protos.kernels import Support
from mixdown.tensorflow.protos.signatures import Signature
from mixdown.tensorflow.protos.wiring import Source
from mixdown.tensorflow.reading.arithmetic import Contractions, Work
from mixdown.tensorflow.reading.builder import ARGUMENT, RESULT, Chapter, Draft, Origin, Use
from mixdown.tensorflow.reading.control_flow import mark_variable_reads, tie_calls, tie_recurrent_edges
from mixdown.tensorflow.reading.tensor_lists import tie_lists
from mixdown.tensorflow.shapes.inference import Place, Shapes
from mixdown.tensorflow.shapes.variable_handles import Handle

UPGRADES = {"FusedBatchNorm": "FusedBatchNormV2", "FusedBatchNormGrad": "FusedBatchNormGradV2"}
"""Kinds that are read as their successors, which keep the statistics in float32, and written as these if lowered."""

KEEP_MARK = "_grappler_do_not_remove"
WIDTH = 4  # bytes of a float32

MOST_PORTS = 2**22
"""The largest number of outputs of all combinations of kind and types in a graph together, each counted once."""


@dataclass(frozen=True)
class Reading:
    """A Graph, and for each of its parts where in the protos it came from."""

    graph: Graph
    bodies: Sequence[Body]
    library: Mapping[str, Any]
    origins: Sequence[Origin]  # per op
    uses: Sequence[Sequence[Use]]  # per tensor, in the order of its consumers
    outputs: Sequence[int]  # per node of the outermost body, how many outputs it has


def read(
    body: Body,
    library: Mapping[str, Any],
    policy: Policy,
    preserved: Collection[str] = (),
    *,
    default_device: str = "",
    handles: Mapping[int, Handle] = MappingProxyType({}),
) -> Reading:
    """Read a body and all functions it calls.

    Args:
        body: the outermost graph, or function.
        library: the functions that may be called, by name.
        policy: the 16-bit dtype, and the devices that may use it.
        preserved: names of nodes of the outermost body that must keep their types.
        default_device: the type of device for nodes that name none; by default the policy's first.
        handles: the variables among the arguments of the body, by position.

    Raises:
        GraphError: an op is unknown, an attribute is missing, an input leads nowhere, or there is a cycle.
    """
    draft, home = Draft(library, frozenset(preserved)), default_device or default_type(policy)
    tree = bodies.tree_of(body, library)
    reader = _NodeReader(draft, policy, _default_devices(tree, library, policy, home))
    compiled = bodies.compiled(tree, library)
    for index, one in enumerate(tree):
        reader.add_chapter(index, one, compiled=index in compiled)
    for chapter in draft.chapters:
        _connect(draft, chapter)
        tie_recurrent_edges(draft, chapter)
        mark_variable_reads(draft, chapter)
    tie_calls(draft)
    tie_lists(draft, reader.may_change)
    outputs = [len(signature.outputs) for signature in draft.chapters[0].signatures]
    shapes = Shapes(draft.places, draft.chapters, library, handles)
    work, contracts = Work(draft, tree, shapes), Contractions(draft, tree, shapes)
    return Reading(draft.graph(shapes, work, contracts), tree, library, draft.origins, draft.uses, outputs)


def is_idle(function: str, library: Mapping[str, Any], policy: Policy) -> bool:
    """Whether neither a function nor anything that it calls has an op that a policy allows.

    Every 16-bit op is next to an allowed one, or connected with one by 16-bit ops. Nothing but kinds is looked at: a
    rule of the policy that allows ops by name or scope counts as if it matched.
    """
    if any(not rule.is_plain and rule.category is Category.ALLOW for rule in policy.overrides):
        return False
    categories = policy.categories()
    body = bodies.function_body(library[function])
    nodes = [body.nodes, *(library[name].node_def for name in bodies.reachable(body, library))]
    kinds = {node.op for each in nodes for node in each}
    kinds.update(UPGRADES[kind] for kind in UPGRADES.keys() & kinds)
    return not any(categories.get(kind) is Category.ALLOW for kind in kinds)


class _Node(NamedTuple):
    """What nodes of one kind and one combination of types have in common."""

    kind: str
    values: signatures.Values
    signature: Signature


class _NodeReader:
    """Turns nodes into ops and sites; what it finds out about a combination of kind and types is kept."""

    def __init__(self, draft: Draft, policy: Policy, default_devices: Sequence[str]) -> None:
        self.draft, self.policy, self.low = draft, policy, signatures.LOW_TYPES[policy.low]
        self.default_devices = default_devices
        # A kind that the policy names keeps its name, or the policy would not find it.
        self._upgrades = UPGRADES.keys() - {override.kind for override in policy.overrides}
        self._nodes: dict[tuple[str, signatures.Values], _Node] = {}
        self._ports = 0  # the outputs of these, all together
        self._known: dict[tuple[str, signatures.Values, str], tuple[Support, ...]] = {}

    def add_chapter(self, index: int, body: Body, *, compiled: bool) -> None:
        """Read one body: its ops sorted by name, then its arguments and results."""
        read = [self._read(node, index) for node in body.nodes]
        chapter = Chapter(index, body, [node.signature for node in read])
        self.draft.chapters.append(chapter)
        for position in chapter.order:
            if read[position].signature.labels:
                self._add_op(chapter, position, read[position], compiled=compiled)
        frozen = _frozen_signature(body, outermost=index == 0)
        for position, (name, dtype) in enumerate(body.arguments):
            if dtype == signatures.FLOAT:
                chapter.argument_sites[position] = self.draft.add_end(name, Origin(index, ARGUMENT, position), frozen)
        for position, (name, _, dtype) in enumerate(body.results):
            if dtype == signatures.FLOAT:
                chapter.result_sites[position] = self.draft.add_end(name, Origin(index, RESULT, position), frozen)

    def _read(self, node: Any, body: int) -> _Node:
        kind = signatures.kind_of(node.op)
        if kind is None:
            return _Node(node.op, (), self._call_signature(node))
        name, values = node.op, kind.values(node)
        if name in self._upgrades and self._frozen(node, body) is None:
            name, values = UPGRADES[name], (signatures.FLOAT, signatures.FLOAT)
        key = (name, values)
        if key not in self._nodes:
            upgraded = signatures.kind_of(name)
            assert upgraded is not None  # noqa: S101 - TensorFlow registers both
            self._nodes[key] = _Node(name, values, signatures.make_signature(upgraded, values))
            self._count_ports(node, self._nodes[key].signature)
        return self._nodes[key]

    def _count_ports(self, node: Any, signature: Signature) -> None:
        """Refuse a small file that makes a huge graph: the number of a node's outputs is just an attribute."""
        self._ports += len(signature.outputs)
        if self._ports > MOST_PORTS:
            raise GraphError(f"The graph has more than {MOST_PORTS} outputs, with those of {node.name!r} ({node.op}).")

    def _call_signature(self, node: Any) -> Signature:
        if node.op not in self.draft.library:
            raise signatures.unknown(node)
        definition = self.draft.library[node.op].signature
        if not definition.attr:
            return signatures.call_signature(definition)
        kind = signatures.prepare(definition)
        return signatures.make_signature(kind, kind.values(node))

    def _add_op(self, chapter: Chapter, position: int, read: _Node, *, compiled: bool) -> None:
        draft, node = self.draft, chapter.body.nodes[position]
        base, index = len(draft.sites), len(draft.ops)
        calls = read.kind in bodies.CALLS or signatures.kind_of(read.kind) is None
        conduit = calls and bool(bodies.followed(node, draft.library))
        frozen = self._frozen(node, chapter.index, anywhere=conduit)
        where = self._device(node, chapter.index)
        where = kernels.compiler_of(where) if compiled else where
        supports = (CONDUIT,) * len(read.signature.labels) if conduit else self._supports(read, where)
        sites = [
            Site(index, label, support.legal, support.kernel, *_nature(node, read.kind, label, conduit=conduit))
            for label, support in zip(read.signature.labels, supports, strict=True)
        ]
        numbers = tuple(range(base, base + len(sites)))
        op = Op(node.name, read.kind, chapter.body.function, numbers, frozen, position, compiled)
        chapter.bases[position] = draft.add_op(op, Origin(chapter.index, position), sites)
        if supports[0].together:
            draft.ties.append(Tie(numbers, Agreement.UNANIMOUS))

    def _device(self, node: Any, body: int) -> str:
        return device_type(node.device) or self.default_devices[body]

    def _supports(self, read: _Node, where: str) -> tuple[Support, ...]:
        key = (read.kind, read.values, where)
        if key not in self._known:
            kind = signatures.kind_of(read.kind)
            # If this TensorFlow was built without kernels for the device, the CPU's are the best guess.
            asked = where if kernels.has_kernels_for(where) else "CPU"
            self._known[key] = (
                (kernels.Support(legal=False, kernel=False),) * len(read.signature.labels)
                if kind is None or read.kind in bodies.CALLS  # a call that is not followed keeps its types
                else kernels.make_support(kind, read.values, read.signature.labels, self.low, asked)
            )
        return self._known[key]

    def may_change(self, chapter: Chapter, position: int) -> bool:
        """Whether nothing keeps a node from changing its types."""
        node = chapter.body.nodes[position]
        conduit = bool(bodies.followed(node, self.draft.library))
        return self._frozen(node, chapter.index, anywhere=conduit) is None

    def _frozen(self, node: Any, body: int, *, anywhere: bool = False) -> str | None:
        """Why a node must keep its types, if so."""
        if body == 0 and node.name in self.draft.preserved:
            return "it is fed, fetched or otherwise asked for by name"
        mark = node.attr.get(KEEP_MARK)
        if mark is not None and mark.b:
            return f"it carries the mark {KEEP_MARK}"
        if bodies.EXACT in node.attr:
            return "it computes a mean or a variance, which must be exact"
        where = self._device(node, body)
        if not anywhere and not self.policy.admits(where):
            return f"it runs on a {where}, which the policy leaves alone"
        return None


def _default_devices(tree: Sequence[Body], library: Mapping[str, Any], policy: Policy, default: str) -> list[str]:
    """Per body, the type of device for nodes that name none: TensorFlow runs them where the call runs.

    For a function that is called on several types of device, it is one that the policy leaves alone, if there is any.
    """
    number = {body.function: index for index, body in enumerate(tree)}

    def called(caller: tuple[int, str]) -> Iterator[tuple[int, str]]:
        index, inherited = caller
        for position, names in bodies.calls(tree[index].nodes, library):
            device = device_type(tree[index].nodes[position].device) or inherited
            yield from ((number[name], device) for name in names)

    found: list[set[str]] = [set() for _ in tree]
    for index, device in bodies.reached([(0, default)], called):
        found[index].add(device)
    return [min(devices, key=lambda device: (policy.admits(device), device)) for devices in found]


def _frozen_signature(body: Body, *, outermost: bool) -> str | None:
    """Why the arguments and results of a function must keep their types, if so."""
    if outermost:
        return "it is part of the signature that callers rely on"
    if body.function and bodies.GROUP in body.proto.attr:
        return "its function is one of several that TensorFlow may choose from, which must look alike"
    return None


CONDUIT = kernels.Support(legal=True, kernel=True)

SHORT_INTEGERS = {types_pb2.DT_INT8, types_pb2.DT_UINT8}
"""Integers that every 16-bit dtype holds exactly."""

LONG_INTEGERS = {
    *(types_pb2.DT_INT16, types_pb2.DT_INT32, types_pb2.DT_INT64),
    *(types_pb2.DT_UINT16, types_pb2.DT_UINT32, types_pb2.DT_UINT64),
}

INTEGERS = SHORT_INTEGERS | LONG_INTEGERS | {types_pb2.DT_BOOL}
"""What a cast makes of a float by dropping digits."""


def _nature(node: Any, kind: str, label: str, *, conduit: bool) -> tuple[Role, bool]:
    """The role of a site, and whether it makes floats of integers."""
    if kind == "Cast":
        source, target = node.attr["SrcT"].type, node.attr["DstT"].type
        if label == "DstT":
            return Role.CONVERSION, source in LONG_INTEGERS
        return (Role.TRUNCATION if target in INTEGERS else Role.PLAIN), False
    return (Role.CONDUIT if conduit and label.endswith("]") else Role.PLAIN), kind == "Range"


def _connect(draft: Draft, chapter: Chapter) -> None:
    """Add every float32 value of a body, with the site that makes it and those that read it."""
    tensors: dict[Source, int] = {}
    for node in chapter.order:
        signature, base = chapter.signatures[node], chapter.bases[node]
        for position, label in enumerate(signature.inputs):
            source = chapter.inputs[node][position]
            if label >= 0:
                tensor = _tensor(draft, chapter, tensors, source)
                draft.add_use(tensor, base + label, Use(chapter.index, node, position))
            elif chapter.output_site(*source) >= 0:
                reader = chapter.body.nodes[node]
                raise GraphError(
                    f"Node {reader.name!r} ({reader.op}) reads {reader.input[position]!r}, which is float32, "
                    f"as another type."
                )
    for position, site in enumerate(chapter.result_sites):
        if site >= 0:
            tensor = _tensor(draft, chapter, tensors, chapter.results[position])
            draft.add_use(tensor, site, Use(chapter.index, RESULT, position))


def _tensor(draft: Draft, chapter: Chapter, tensors: dict[Source, int], source: Source) -> int:
    if source not in tensors:
        node, port = source
        maker = chapter.output_site(node, port)
        name = chapter.body.arguments[-1 - node][0] if node < 0 else chapter.body.nodes[node].name
        if maker < 0:
            raise GraphError(f"The output {port} of {name!r} is read as float32, but it is not.")
        folds = node >= 0 and chapter.body.nodes[node].op == "Const"
        constant = _constant_in(chapter.body.nodes[node]) if folds else None
        place = Place(chapter.index, node, port)
        tensors[source] = draft.add_tensor(f"{name}:{port}", maker, place, folds=folds, constant=constant)
    return tensors[source]


def _constant_in(node: Any) -> Constant | None:
    """What the float32 numbers in a Const node are like, None if there are none or they cannot be read."""
    tensor = node.attr["value"].tensor
    if not all(dim.size for dim in tensor.tensor_shape.dim) or len(tensor.tensor_content) % WIDTH:
        return None
    if tensor.tensor_content:
        return described(np.frombuffer(tensor.tensor_content, "<f4"))
    return described(np.fromiter(tensor.float_val, np.float32))  # the last one stands for all that follow
