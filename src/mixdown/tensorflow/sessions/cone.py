"""One of several ways to run a session's graph: copies of the nodes that a plan changes and of all behind them: `Cone`.

A session keeps every node that it has, and its variables live in nodes that no plan changes. So the ways share those,
and differ in what is copied; a run takes the user's fetches from the copies of one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import Any

from mixdown.core import Policy
from mixdown.tensorflow.protos.c_graph import CGraph
from mixdown.tensorflow.protos.wiring import source
from mixdown.tensorflow.sessions.graph import MARK, Layout
from mixdown.tensorflow.sessions.growth import SettledPlan


class Cone:
    """Copies of nodes, under other names.

    Args:
        graph: where they are.
        policy: the policy that they follow.
        plan: what came of it.
        layout: where rewritten nodes are, by the names that they have before they are copied.
        number: what tells their names from those of other cones.
    """

    def __init__(self, graph: CGraph, policy: Policy, plan: SettledPlan, layout: Layout, number: int) -> None:
        self.policy, self.plan, self._graph, self._layout = policy, plan, graph, layout
        self._ending = f"{MARK}_{number}"
        self._names: set[str] = set()  # of the nodes that are copied

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def copied(self, nodes: Iterable[Any], changed: Iterable[str] = ()) -> Iterator[Any]:
        """Copies of the nodes that are changed, and of those that lead on from them or from earlier copies."""
        nodes, readers = list(nodes), dict[str, list[str]]()
        for node in nodes:
            for text in node.input:
                readers.setdefault(source(text)[0], []).append(node.name)
        queue = [*changed, *(name for each in self._names for name in readers.get(each, ()))]
        for name in queue:
            if name not in self._names:
                self._names.add(name)
                queue.extend(readers.get(name, ()))
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
