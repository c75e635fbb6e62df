"""The twin of a session's graph: what the session really runs. Start with `Twin.sync`."""

from __future__ import annotations

import re
from contextlib import contextmanager
from logging import DEBUG, INFO
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from tensorflow.core.framework import graph_pb2

from mixdown.core import Paint, make_plan
from mixdown.messages import logger
from mixdown.tensorflow.protos import signatures
from mixdown.tensorflow.protos.bodies import graph_body
from mixdown.tensorflow.protos.c_graph import CGraph
from mixdown.tensorflow.reading.read import read
from mixdown.tensorflow.runtime.gc_pause import collector_paused
from mixdown.tensorflow.runtime.private import OpError, eager_mode
from mixdown.tensorflow.sessions.functions import Functions, mentioned
from mixdown.tensorflow.sessions.graph import MARKED, Layout, Rewritten, write
from mixdown.tensorflow.sessions.growth import brings_nothing_low, settle

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mixdown.core import Plan, Policy
    from mixdown.tensorflow.reading.read import Reading

ADDED = re.compile(rf"{MARKED.pattern}|/cast_\d+_to_(?:float32|float16|bfloat16)(?:_\d+)?")
"""What tells the name of a node or function that mixdown added from the name of the user's own."""


class Import(NamedTuple):
    """What is to be noted once nodes are imported."""

    names: set[str]
    library: Any
    layout: Layout
    plan: Plan | None
    reading: Reading | None


class Twin:
    """A graph with the nodes of the user's under the same names, in which some compute low.

    Args:
        policy: what may be low, and where.
        default_device: the type of device that runs what is not placed.
    """

    def __init__(self, policy: Policy, default_device: str = "CPU") -> None:
        self.policy, self.default_device = policy, default_device
        self.lock = Lock()
        self._low = signatures.LOW_TYPES[policy.low]
        self._c_graph = CGraph()
        self._layout = Layout()
        self._functions = Functions()
        self._nodes: set[str] = set()  # the user's nodes that are imported
        self._begun: Import | None = None  # an import that is not noted yet
        self.version = 0  # of the user's graph, as far as it is imported
        self.extended_to = 0  # the same, as far as the session knows
        self._rewrites = True
        self.plan: Plan | None = None  # what was last decided about the whole graph
        self.reading: Reading | None = None  # what it was made of

    @property
    def graph(self) -> Any:
        """The graph to run."""
        return self._c_graph.graph

    @property
    def is_empty(self) -> bool:
        """Whether nothing was imported yet."""
        return not self._nodes

    def sync(self, user: Any) -> None:
        """Import what the user's graph has gained, rewritten.

        Raises:
            Exception: it cannot be read, planned or imported, for whatever reason. Then nothing was imported.
        """
        self._note_import()  # of a call that was interrupted
        if user.version == self.version:
            return
        version = user.version
        new = user.get_operations()[len(self._nodes) :]  # in the order in which they were made
        if not self._rewrites or (self._nodes and brings_nothing_low(new, self.policy)):
            self._add_as_is(user, [operation.node_def for operation in new])
        else:
            with eager_mode(), collector_paused():
                self._add_rewritten(user.as_graph_def())
        self.version = version

    def sync_as_is(self, user: Any) -> None:
        """Import what the user's graph has gained as it is, now and from now on."""
        self._rewrites = False
        self.sync(user)

    def doubles(self, name: str, port: int) -> list[tuple[Any, str, bool]]:
        """What else must be fed when the user feeds a tensor: the tensor, its name, whether it is low."""
        return [
            (self._c_graph.tensor(node, index), f"{node}:{index}", low)
            for node, index, low in self._layout.doubles(name, port)
        ]

    @contextmanager
    def speaking_for_user(self) -> Iterator[None]:
        """Let errors name the user's nodes and functions: TensorFlow then finds the user's source lines by these."""
        try:
            yield
        except OpError as error:
            error._message = ADDED.sub("", error._message)
            raise

    def _add_as_is(self, user: Any, nodes: Sequence[Any]) -> None:
        origin = graph_pb2.GraphDef(versions=user.graph_def_versions)
        if any(user._is_function(name) for name in mentioned(nodes)):
            origin.library.CopyFrom(user.as_graph_def().library)
        self._add(origin, Rewritten([(node, node) for node in nodes]))

    def _add_rewritten(self, origin: Any) -> None:
        library = {function.signature.name: function for function in origin.library.function}
        reading = read(graph_body(origin), library, self.policy, default_device=self.default_device)
        plan = settle(reading, make_plan(reading.graph, self.policy), self._nodes, self._layout.lowered)
        root, twins = self._functions.apply(reading, plan, self.default_device)
        functions = {**library, **{twin.signature.name: twin for twin in twins}}
        new = [pair for pair in zip(origin.node, root.node, strict=True) if pair[0].name not in self._nodes]
        rewritten = Rewritten(new, _low_inputs(reading, plan), _lowered(reading, plan), functions)
        self._add(origin, rewritten, plan, reading)
        logger().log(INFO if plan.changes_anything else DEBUG, "session: %s", plan.summary)

    def _add(self, origin: Any, rewritten: Rewritten, plan: Plan | None = None, reading: Reading | None = None) -> None:
        """Import nodes, with what they need of the graph they come from."""
        names = {before.name for before, _ in rewritten.nodes}
        taken = names | self._c_graph.operations.keys()
        nodes, layout = write(rewritten, self._layout, self._low, taken)
        functions = rewritten.functions.values() or origin.library.function
        library = self._functions.library(functions, origin.library.gradient)
        self._begun = Import(names, library, layout, plan or self.plan, reading or self.reading)
        self._c_graph.add(graph_pb2.GraphDef(node=nodes, library=library, versions=origin.versions))
        self._note_import()

    def _note_import(self) -> None:
        """Take note of the nodes that were to be imported, if they were: an interrupt may come at any moment."""
        begun = self._begun
        if begun is not None and self._c_graph.holds(begun.names):
            self._functions.remember(begun.library)
            self._layout, self.plan, self.reading = begun.layout, begun.plan, begun.reading
            self._nodes |= begun.names
        self._begun = None


def _low_inputs(reading: Reading, plan: Plan) -> set[tuple[str, int]]:
    nodes = reading.bodies[0].nodes
    return {
        (nodes[use.node].name, use.position)
        for tensor, uses in zip(plan.graph.tensors, reading.uses, strict=True)
        for use, site in zip(uses, tensor.consumers, strict=True)
        if use.body == 0 and plan.paints[site] is Paint.LOW
    }


def _lowered(reading: Reading, plan: Plan) -> dict[str, frozenset[str]]:
    graph, out = plan.graph, {}
    for op, origin in zip(graph.ops, reading.origins, strict=True):
        low = frozenset(graph.sites[site].attribute for site in op.sites if plan.paints[site] is Paint.LOW)
        if low and origin.body == 0:
            out[op.name] = low
    return out
