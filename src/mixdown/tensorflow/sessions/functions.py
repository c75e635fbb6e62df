"""The functions of a session's graph: those imported so far, and twins of those that change. See `Functions.apply`."""

from __future__ import annotations

from hashlib import blake2b
from itertools import count
from typing import TYPE_CHECKING, Any

from tensorflow.core.framework import function_pb2

from mixdown.core import make_plan
from mixdown.tensorflow.protos.bodies import GROUP, function_body
from mixdown.tensorflow.reading.read import read
from mixdown.tensorflow.sessions.graph import MARK
from mixdown.tensorflow.writing.apply import apply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from mixdown.core import Plan
    from mixdown.tensorflow.reading.read import Reading


PARTNERS = ("forward_function_name", "backward_function_name")
"""Attributes by which the functions of one group name each other."""


class Functions:
    """The functions that a twin has imported, and the way to more of them."""

    def __init__(self) -> None:
        self._imported: dict[str, bytes] = {}
        self._numbers = count(1)

    def apply(self, reading: Reading, plan: Plan, default_device: str) -> tuple[Any, list[Any]]:
        """Write a plan down: the outermost graph and the twins that it calls, or might.

        Twins that were imported before get their old names if they still look the same, and new ones if not.
        """
        root, twins = _apply(reading, plan, default_device, "")
        if any(self._differs(twin) for twin in twins):
            root, twins = _apply(reading, plan, default_device, f"_{next(self._numbers)}")
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

    def _differs(self, function: Any) -> bool:
        digest = _digest(function)
        return self._imported.get(function.signature.name, digest) != digest


def mentioned(nodes: Iterable[Any]) -> set[str]:
    """The names of all functions in the attributes of nodes, and all their kinds, which may be functions too."""
    out = set()
    for node in nodes:
        out.add(node.op)
        for value in node.attr.values():
            out.update(function.name for function in (*value.list.func, value.func))
    return out - {""}


def _apply(reading: Reading, plan: Plan, default_device: str, suffix: str) -> tuple[Any, list[Any]]:
    """Write a plan down. Of a group that TensorFlow chooses from, all members get a twin, in a group of their own."""
    groups = {_group(body.proto) for body in reading.bodies if body.function} - {b""}
    members = [name for name in sorted(reading.library) if groups and _group(reading.library[name]) in groups]
    also = [body.function for body in reading.bodies if body.function in members]
    root, twins = apply(reading, plan, _namer(suffix), also)
    families = [twins]
    for number, partner in enumerate(name for name in members if name not in twins):
        own = read(function_body(reading.library[partner]), reading.library, plan.policy, default_device=default_device)
        # What a partner calls may be called elsewhere as well, and get another twin there: hence another name.
        copy, more = apply(own, make_plan(own.graph, plan.policy), _namer(f"_low_{number}{suffix}"))
        families.append({partner: copy, **more})
    _rename_groups(families, suffix)
    return root, [twin for family in families for twin in family.values()]


def _namer(suffix: str) -> Callable[[str], str]:
    return lambda name: f"{name}{MARK}{suffix}"


def _group(function: Any) -> bytes:
    return function.attr[GROUP].s if GROUP in function.attr else b""


def _rename_groups(families: Sequence[Mapping[str, Any]], suffix: str) -> None:
    """Give twins a group of their own, so that TensorFlow never chooses an original in their place."""
    names = {original: twin.signature.name for family in families for original, twin in family.items() if _group(twin)}
    for twin in (twin for family in families for twin in family.values() if _group(twin)):
        twin.attr[GROUP].s += f"{MARK}{suffix}".encode()
        for attribute in PARTNERS:
            if attribute in twin.attr:
                partner = twin.attr[attribute].s.decode()
                twin.attr[attribute].s = names.get(partner, partner).encode()


def _digest(function: Any) -> bytes:
    return blake2b(function.SerializeToString(deterministic=True)).digest()
