"""The functions of a converted model: rewritten ones next to those that stay. Start with `Functions.add`."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any

from mixdown.errors import GraphError
from mixdown.tensorflow.sessions.functions import PARTNERS, mentioned
from mixdown.tensorflow.sessions.graph import MARK
from mixdown.tensorflow.writing.apply import unused

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Functions:
    """Rewritten functions. What several callers need in the same form is written down once."""

    def __init__(self, originals: Mapping[str, Any], low: str) -> None:
        self.originals, self.low = originals, low
        self.written: dict[str, Any] = {}  # by name
        self._names: dict[tuple[str, bytes], str] = {}  # original and content -> name
        self._taken = set(originals)

    def keep(self, root: str) -> None:
        """Note that a function stays as it is."""
        self._names[root, _content(self.originals[root], root)] = root

    def add(self, twins: Iterable[Any], root: str = "") -> dict[str, str]:
        """Take a family of twins; returns the names they get. The twin named `root` gets the name of its original."""
        family = {twin.signature.name: twin for twin in twins}
        names: dict[str, str] = {}
        for twin in _callees_first(family):
            self._settle(twin, family, names, root)
        for function in (self.written[name] for name in names.values() if name in self.written):
            for attribute in (attribute for attribute in PARTNERS if attribute in function.attr):
                partner = function.attr[attribute].s.decode()
                function.attr[attribute].s = names.get(partner, partner).encode()
        return names

    def _settle(self, twin: str, family: Mapping[str, Any], names: dict[str, str], root: str) -> None:
        """Give a twin its final name, after those it calls."""
        function, original = family[twin], twin.rpartition(MARK)[0]
        called = sorted(mentioned(function.node_def) & family.keys())
        rename_calls(function.node_def, {callee: names[callee] for callee in called})
        key = (original, _content(function, original))
        if twin == root or key not in self._names:
            self._names[key] = original if twin == root else unused(f"{original}__{self.low}", self._taken)
            self.written[self._names[key]] = function
        names[twin] = function.signature.name = self._names[key]

    def library(self, nodes: Iterable[Any], roots: Iterable[str], library: Any) -> list[Any]:
        """All functions of the model: the rewritten, and the originals that are not replaced or still referred to."""
        functions = {**self.originals, **self.written}
        replaced = {original for original, _ in self._names} - self.written.keys()
        found = {*roots, *mentioned(nodes), *(name for name in functions if name not in replaced)}
        found.update(name for pair in library.gradient for name in (pair.function_name, pair.gradient_func))
        found.update(gradient.gradient_func for gradient in library.registered_gradients)
        queue = sorted(found & functions.keys())
        for name in queue:
            more = (mentioned(functions[name].node_def) | _partners(functions[name])) & functions.keys() - set(queue)
            queue.extend(sorted(more))
        return [functions[name] for name in functions if name in set(queue)]


def _callees_first(family: Mapping[str, Any]) -> list[str]:
    """The names of a family, those first that others call.

    Raises:
        GraphError: functions call each other in a circle.
    """
    called = {name: sorted(mentioned(family[name].node_def) & family.keys()) for name in sorted(family)}
    try:
        return list(TopologicalSorter(called).static_order())
    except CycleError as circle:
        names = " -> ".join(name.rpartition(MARK)[0] for name in circle.args[1])
        raise GraphError(f"Functions of the model call each other in a circle: {names}.") from None


def rename_calls(nodes: Iterable[Any], names: Mapping[str, str]) -> None:
    """Let nodes call functions by other names."""
    for node in nodes:
        node.op = names.get(node.op, node.op)
        for value in node.attr.values():
            for function in (*value.list.func, *([value.func] if value.HasField("func") else [])):
                function.name = names.get(function.name, function.name)


def _partners(function: Any) -> set[str]:
    return {function.attr[attribute].s.decode() for attribute in PARTNERS if attribute in function.attr}


def _content(function: Any, original: str) -> bytes:
    """What a function does, whatever it and its partners are called."""
    copy = type(function)()
    copy.CopyFrom(function)
    copy.signature.name = original
    for attribute in (attribute for attribute in PARTNERS if attribute in copy.attr):
        copy.attr[attribute].s = copy.attr[attribute].s.rpartition(MARK.encode())[0] or copy.attr[attribute].s
    return copy.SerializeToString(deterministic=True)
