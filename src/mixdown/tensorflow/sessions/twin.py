"""The twin of a session's graph, which the session runs in its place. Start with `SessionTwin.sync`.

A session cannot change a node it has, so a decision once carried out stands. Each time the graph has grown, all of it
is planned anew, as if it had come at once; new nodes do as that plan says, old ones stay as they are.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from itertools import count
from logging import DEBUG, INFO
from threading import Lock
from typing import Any, NamedTuple

from tensorflow.core.framework import function_pb2, graph_pb2

from mixdown.core import Agreement, Category, Graph, Paint, Plan, Policy, make_plan
from mixdown.core.gc_pause import collector_paused
from mixdown.core.plan import summary_of
from mixdown.core.rule_watch import RuleWatch
from mixdown.messages import logger
from mixdown.tensorflow.protos import signatures
from mixdown.tensorflow.protos.bodies import CALLS, graph_body
from mixdown.tensorflow.protos.c_graph import CGraph
from mixdown.tensorflow.protos.library import by_name, mentioned
from mixdown.tensorflow.reading.read import Reading, read
from mixdown.tensorflow.runtime.private import OpError, eager_mode
from mixdown.tensorflow.sessions.graph import MARK, MARKED, Layout, NewNodes, write
from mixdown.tensorflow.writing.function_family import apply_to_families
from mixdown.tuning.memory import Tuned

ADDED = re.compile(rf"{MARKED.pattern}|/(?:cast_\d+_to_(?:float32|float16|bfloat16)|stored_\d+)(?:_\d+)?")
"""What the name of a node or function that mixdown added has behind the name of the user's own."""


class SettledPlan(NamedTuple):
    """The plan of a session's whole graph, and what its sites really have: imported nodes keep what they got before."""

    plan: Plan
    reading: Reading  # what the plan was made of
    paints: tuple[Paint, ...]

    @property
    def graph(self) -> Graph:
        """The graph the plan is for."""
        return self.plan.graph

    @property
    def changes_anything(self) -> bool:
        """Whether any site is 16-bit."""
        return Paint.LOW in self.paints

    @property
    def summary(self) -> str:
        """What the session runs, in one line."""
        return summary_of(self.plan.view, self.paints)


class Import(NamedTuple):
    """What the twin remembers once nodes are imported."""

    names: set[str]
    library: Any
    layout: Layout
    plan: SettledPlan | None


class SessionTwin:
    """A graph with the nodes of the user's graph under the same names, some of which compute in 16 bits."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.default_device = "CPU"  # the type of device that runs what is not placed
        self.lock = Lock()
        self._low = signatures.LOW_TYPES[policy.low]
        self._c_graph = CGraph()
        self._layout = Layout()
        self._functions = _SessionFunctions()
        self._nodes: set[str] = set()  # the user's nodes that are imported
        self._begun: Import | None = None  # an import that may be under way
        self.version = 0  # of the user's graph, as far as it is imported
        self.extended_to = 0  # the same, as far as the session knows
        self._rules = RuleWatch(policy)
        self._rewrites = True
        self.plan: SettledPlan | None = None  # of the whole graph, as far as it is imported
        self.tuned: Tuned | None = None  # what the last run's tuning found out

    @property
    def graph(self) -> Any:
        """The graph to run."""
        return self._c_graph.graph

    @property
    def is_empty(self) -> bool:
        """Whether nothing was imported yet."""
        return not self._nodes

    def sync(self, user: Any) -> None:
        """Import what the user's graph has gained, rewritten; if that fails, for whatever reason, nothing of it."""
        self._note_import()  # of a call that was interrupted
        if user.version == self.version:
            return
        version = user.version
        new = user.get_operations()[len(self._nodes) :]  # in the order in which they were made
        if not self._rewrites or (self._nodes and _brings_nothing_low(new, self.policy)):
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
    def with_users_names(self) -> Iterator[None]:
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
        self._add(origin, NewNodes([(node, node) for node in nodes]))

    def _add_rewritten(self, origin: Any) -> None:
        new, plan = self._rewritten(origin, self.policy, self._nodes, self._layout)
        self._rules.see(plan.plan)
        if self._rules.awaits(plan.plan):  # a graph holds all of a step
            self._rules.step_is_over()
        self._add(origin, new, plan)
        logger().log(INFO if plan.changes_anything else DEBUG, "session: %s", plan.summary)

    def _rewritten(
        self, origin: Any, policy: Policy, imported: Collection[str], layout: Layout
    ) -> tuple[NewNodes, SettledPlan]:
        """What a graph has beside the nodes that are imported, rewritten, and the plan for all of it."""
        library = by_name(origin)
        reading = read(graph_body(origin), library, policy, default_device=self.default_device)
        plan = _settle(reading, make_plan(reading.graph, policy), imported, layout.lowered)
        root, twins = self._functions.apply(plan, self.default_device)
        functions = {**library, **{twin.signature.name: twin for twin in twins}}
        # Not strict: casts follow the user's nodes. `write` adds its own, as the twin may hold some of them already.
        new = [pair for pair in zip(origin.node, root.node, strict=False) if pair[0].name not in imported]
        return NewNodes(new, _low_inputs(plan), _lowered(plan), functions), plan

    def _add(self, origin: Any, new: NewNodes, plan: SettledPlan | None = None) -> None:
        """Import nodes, with what they need of the graph they come from."""
        names = {before.name for before, _ in new.nodes}
        nodes, layout = write(new, self._layout, self._low, names | self._c_graph.operations.keys())
        functions = new.functions.values() or origin.library.function
        library = self._functions.library(functions, origin.library.gradient)
        self._begun = Import(names, library, layout, plan or self.plan)
        self._c_graph.add(graph_pb2.GraphDef(node=nodes, library=library, versions=origin.versions))
        self._note_import()

    def _note_import(self) -> None:
        """Take note of the nodes that were to be imported, if they were: an interrupt may come at any moment."""
        begun = self._begun
        if begun is not None and self._c_graph.holds(begun.names):
            self._functions.remember(begun.library)
            self._layout, self.plan = begun.layout, begun.plan
            self._nodes |= begun.names
        self._begun = None


class _SessionFunctions:
    """The functions that a twin has imported, and twins of those that change."""

    def __init__(self) -> None:
        self._imported: dict[str, bytes] = {}
        self._numbers = count(1)

    def apply(self, plan: SettledPlan, device: str) -> tuple[Any, list[Any]]:
        """The rewritten graph, and the twins that it calls, or may call.

        Twins that were imported before get their old names if they still look the same, and new ones if not.
        """
        root, twins = _apply(plan, device, "")
        if any(self._imported.get(twin.signature.name, _digest(twin)) != _digest(twin) for twin in twins):
            root, twins = _apply(plan, device, f"_{next(self._numbers)}")
        return root, twins

    def library(self, functions: Iterable[Any], gradients: Iterable[Any]) -> Any:
        """What is still to be imported of these functions and of the gradients registered for them."""
        new = [function for function in functions if function.signature.name not in self._imported]
        names = {function.signature.name for function in new}
        pairs = [gradient for gradient in gradients if gradient.function_name in names]
        return function_pb2.FunctionDefLibrary(function=new, gradient=pairs)

    def remember(self, library: Any) -> None:
        """Note that a library was imported."""
        self._imported.update((function.signature.name, _digest(function)) for function in library.function)


def _apply(plan: SettledPlan, device: str, ending: str) -> tuple[Any, list[Any]]:
    families = count()

    def suffix(head: str) -> str:
        return f"{MARK}_low_{next(families)}{ending}" if head else f"{MARK}{ending}"

    root, twins = apply_to_families(plan.reading, plan.plan, device, suffix, paints=plan.paints)
    return root, [twin for family in twins for twin in family.values()]


def _digest(function: Any) -> bytes:
    return blake2b(function.SerializeToString(deterministic=True)).digest()


def _low_inputs(plan: SettledPlan) -> set[tuple[str, int]]:
    nodes = plan.reading.bodies[0].nodes
    return {
        (nodes[use.node].name, use.position)
        for tensor, uses in zip(plan.graph.tensors, plan.reading.uses, strict=True)
        for use, site in zip(uses, tensor.consumers, strict=True)
        if use.body == 0 and plan.paints[site] is Paint.LOW
    }


def _lowered(plan: SettledPlan) -> dict[str, frozenset[str]]:
    graph, out = plan.graph, {}
    for op, origin in zip(graph.ops, plan.reading.origins, strict=True):
        low = frozenset(graph.sites[site].attribute for site in op.sites if plan.paints[site] is Paint.LOW)
        if low and origin.body == 0:
            out[op.name] = low
    return out


def _settle(
    reading: Reading, plan: Plan, imported: Collection[str], lowered: Mapping[str, Collection[str]]
) -> SettledPlan:
    """The plan, except that imported nodes stay as they are; `lowered` has their type attributes that are low."""
    graph, paints = plan.graph, list(plan.paints)
    fixed = {
        site: Paint.LOW if graph.sites[site].attribute in lowered.get(op.name, ()) else Paint.FULL
        for op, origin in zip(graph.ops, reading.origins, strict=True)
        if origin.body == 0 and op.name in imported
        for site in op.sites
    }
    for site, paint in fixed.items():
        paints[site] = paint
    for tie in graph.ties:
        leader = next((site for site in tie.sites if site in fixed), None)
        if tie.agreement is Agreement.SPREAD and leader is not None:
            for site in tie.sites:  # a new op on an old tensor list takes the dtype of its elements
                paints[site] = fixed.get(site, paints[leader])
    return SettledPlan(plan, reading, tuple(paints))


def _brings_nothing_low(operations: Iterable[Any], policy: Policy) -> bool:
    """Whether new operations can be imported as they are, without planning the graph again.

    They can if none of them is an allow op, calls a function, or takes or makes a tensor list.
    """
    if any(override.category is Category.ALLOW and not override.is_plain for override in policy.overrides):
        return False
    categories = policy.categories()
    return all(
        categories.get(operation.type) is not Category.ALLOW and not _hides_something(operation)
        for operation in operations
    )


def _hides_something(operation: Any) -> bool:
    handles = any(
        tensor.dtype.as_datatype_enum == signatures.VARIANT for tensor in (*operation.inputs, *operation.outputs)
    )
    return handles or operation.type in CALLS or operation.graph._is_function(operation.type)
