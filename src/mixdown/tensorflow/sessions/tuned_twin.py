"""The twin of a session's graph under `Policy(strategy="tuned")`: its first runs are timed. See `TunedSessionTwin.run`.

The user's graph is imported as it is, and for every candidate a cone beside it (`Cone`): copies of the nodes that its
plan changes and of all behind them. A session keeps every node that it has, and its variables live in nodes that no
plan changes. So the candidates share those, and a run takes the user's fetches from the copies of one of them. What is
fetched decides which runs are compared. What is added to the graph after the first run stays float32.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from typing import Any

from tensorflow.core.framework import graph_pb2

from mixdown.core import Policy
from mixdown.core.gc_pause import collector_paused
from mixdown.messages import warn
from mixdown.tensorflow.machine.devices import described, versions
from mixdown.tensorflow.protos import signatures
from mixdown.tensorflow.protos.bodies import reached
from mixdown.tensorflow.protos.c_graph import CGraph
from mixdown.tensorflow.protos.wiring import source
from mixdown.tensorflow.runtime.private import c_api, eager_mode
from mixdown.tensorflow.sessions.graph import MARK, Layout, write
from mixdown.tensorflow.sessions.twin import SessionTwin, SettledPlan
from mixdown.tuning.memory import Identity, fingerprint
from mixdown.tuning.tuner import Note, Tuner, timed


class Cone:
    """Copies of nodes in a graph, under names that a number tells from those of other cones, by a policy and its plan.

    The layout says where rewritten nodes are, by the names that they have before they are copied.
    """

    def __init__(self, graph: CGraph, policy: Policy, plan: SettledPlan, layout: Layout, number: int) -> None:
        self.policy, self.plan, self._graph, self._layout = policy, plan, graph, layout
        self._ending = f"{MARK}_{number}"
        self._names: set[str] = set()  # of the nodes that are copied

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def copied(self, nodes: Iterable[Any], changed: Iterable[str] = ()) -> Iterator[Any]:
        """Copies of the nodes that are changed, and of those that lead on from them or from earlier copies."""
        nodes, readers = list(nodes), defaultdict[str, list[str]](list)
        for node in nodes:
            for text in node.input:
                readers[source(text)[0]].append(node.name)
        self._names.update(reached([*changed, *self._names], lambda name: readers[name]))
        return (self._copy(node) for node in nodes if node.name in self._names)

    def tensor(self, name: str, port: int) -> Any:
        """The tensor that stands for the user's."""
        return self._graph.tensor(self._name(name), port)

    def operation(self, name: str) -> Any:
        """The operation that stands for the user's."""
        return self._graph.operations[self._name(name)]

    def doubles(self, name: str, port: int) -> list[tuple[Any, str, bool]]:
        """What else must be fed when the user feeds a tensor: the tensor, its name, whether it is low."""
        own = [(name, port, False)] if name in self else []
        also = [*own, *self._layout.doubles(name, port)]
        return [(self.tensor(node, index), f"{self._name(node)}:{index}", low) for node, index, low in also]

    def _name(self, name: str) -> str:
        return f"{name}{self._ending}" if name in self._names else name

    def _copy(self, node: Any) -> Any:
        copy = deepcopy(node)
        copy.name = self._name(node.name)
        copy.input[:] = [self._input(text) for text in node.input]
        beside = copy.attr["_class"].list.s if "_class" in copy.attr else []
        for at, place in enumerate(beside):
            kind, _, name = place.decode().partition("@")
            beside[at] = f"{kind}@{self._name(name)}".encode()
        return copy

    def _input(self, text: str) -> str:
        name, port = source(text)
        return f"^{self._name(name)}" if port is None else f"{self._name(name)}:{port}"


class TunedSessionTwin(SessionTwin):
    """A graph with the nodes of the user's graph as they are, and cones of candidates beside them."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self._rewrites = False
        self._cones: dict[Policy, Cone] = {}
        self._tuners: dict[tuple[str, ...], Tuner] = {}  # by what is run and fetched
        self._failed = False

    def choices(self) -> dict[str, Policy]:
        """What is kept, by the fingerprint of a run."""
        found = [tuner.tuned for tuner in self._tuners.values() if tuner.tuned]
        return {each.graph: each.policy for each in found}

    def sync(self, user: Any) -> None:
        """Import what the user's graph has gained as it is, and what cones need of it."""
        before = len(self._nodes)
        super().sync(user)
        new = [operation.node_def for operation in user.get_operations()[before : len(self._nodes)]]
        for cone in self._cones.values():
            self._c_graph.add(graph_pb2.GraphDef(node=cone.copied(new), versions=user.graph_def_versions))

    def run(self, session: Any, call: Callable[[Any, Any, Any], Any], feeds: Any, fetches: Any, targets: Any) -> Any:
        """Make a run of a session; `call` runs a twin or cone, given what it is to fetch and to run.

        Feeds, fetches and targets are the user's, as TensorFlow's C interface represents them.
        """
        outputs = [(c_api.TF_OperationName(fetch.oper), fetch.index) for fetch in fetches]
        names = [c_api.TF_OperationName(target) for target in targets]

        def run(cone: Cone) -> Any:
            return call(cone, [cone.tensor(*output) for output in outputs], [cone.operation(name) for name in names])

        with session._graph._session_run_lock(), self.lock:
            cone, note = self._chosen(session, feeds, outputs, names)
        if cone is None:
            return call(self, fetches, targets)
        if note is None:
            return run(cone)

        def noted(seconds: float) -> None:
            with self.lock:
                note(seconds)

        return timed(lambda: run(cone), lambda: None, noted)  # a session waits for its devices

    def _chosen(
        self, session: Any, feeds: Any, outputs: Sequence[tuple[str, int]], names: Sequence[str]
    ) -> tuple[Cone | None, Note | None]:
        """The cone of the next run, None if the user's own nodes will do, and what to tell how long it took."""
        try:
            cone = self._cone(session, self.policy.untuned)
        except Exception as error:  # noqa: BLE001 - whatever it is, the user's graph can run as it was
            if not self._failed:
                warn(f"A session runs in float32: {error}")
            self._failed = True
            return None, None
        if not any(name in cone for name in (*names, *(name for name, _ in outputs))):
            return None, None
        fetched = (*names, *(f"{name}:{port}" for name, port in outputs))
        if fetched not in self._tuners:
            graph = fingerprint(cone.plan.plan, *fetched)
            identity = Identity(f"run of {', '.join(fetched)}", graph, described(self.default_device), versions())
            self._tuners[fetched] = Tuner(self.policy, cone.plan.plan, identity)
        tuner = self._tuners[fetched]
        shapes = tuple(sorted((c_api.TF_OperationName(feed.oper), value.shape) for feed, value in feeds.items()))
        policy, note = tuner.next(shapes, lambda policy: self._cone(session, policy).plan.plan)
        cone = self._cone(session, policy)
        self.plan, self.tuned = cone.plan, tuner.so_far()
        return cone, note

    def _cone(self, session: Any, policy: Policy) -> Cone:
        """The cone of a policy, imported when it is first asked for."""
        if policy not in self._cones:
            with eager_mode(), collector_paused():
                origin = session._graph.as_graph_def()
                new, plan = self._rewritten(origin, policy, (), Layout())
                names, low = {node.name: node for node in origin.node}, signatures.LOW_TYPES[policy.low]
                nodes, layout = write(new, Layout(), low, set(names))
                cone = Cone(self._c_graph, policy, plan, layout, len(self._cones))
                changed = [node.name for node in nodes if names.get(node.name) != node]
                library = self._functions.library(new.functions.values(), origin.library.gradient)
                copies = list(cone.copied(nodes, changed))
                self._c_graph.add(graph_pb2.GraphDef(node=copies, library=library, versions=origin.versions))
                self._functions.remember(library)
            c_api.ExtendSession(session._session)
            self._cones[policy] = cone
        return self._cones[policy]
