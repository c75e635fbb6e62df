"""One function rewritten, with all it calls and all that TensorFlow may choose in its place: `rewrite_function`.

Nothing is registered and nothing is run here, so that what is previewed is what is applied, byte for byte: the names of
twins follow from what they are twins of, and from nothing else.
"""

from __future__ import annotations

import json
from collections import ChainMap
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from mixdown.core import make_plan
from mixdown.tensorflow.protos.bodies import GROUP, function_body
from mixdown.tensorflow.reading.read import read
from mixdown.tensorflow.writing.apply import apply

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mixdown.core import Plan, Policy
    from mixdown.tensorflow.reading.read import Reading
    from mixdown.tensorflow.shapes.variable_handles import Handle

PARTNERS = ("forward_function_name", "backward_function_name")
"""Attributes by which the functions of one group name each other."""


class Asked(NamedTuple):
    """Which function is to be rewritten, and for what."""

    root: str
    policy: Policy
    device: str  # the type of the device it is called on
    handles: Mapping[int, Handle]  # the variables among its arguments, by position


class Rewritten(NamedTuple):
    """A function's plan, and the twins that carry it out: pairs of original name and FunctionDef, the root's first."""

    plan: Plan
    reading: Reading
    twins: Sequence[tuple[str, Any]]  # none if nothing in it can be low


def rewrite_function(library: Mapping[str, Any], asked: Asked, groups: dict[str, bytes] | None = None) -> Rewritten:
    """Rewrite a function and whatever has to change with it.

    Args:
        library: all functions that TensorFlow knows.
        asked: what to do.
        groups: the groups of functions looked at before, so that they need not be looked at again; grows.
    """
    reading = read(
        function_body(library[asked.root]),
        library,
        asked.policy,
        default_device=asked.device,
        handles=asked.handles,
    )
    plan = make_plan(reading.graph, asked.policy)
    if not plan.changes_anything:
        return Rewritten(plan, reading, ())
    chosen_from = {_group(body.proto) for body in reading.bodies} - {b""}
    families = [_family(reading, plan, asked, chosen_from)]
    for partner in sorted(_members(library, chosen_from, {} if groups is None else groups)):
        if not any(partner in family for family in families):
            own = read(function_body(library[partner]), library, asked.policy, default_device=asked.device)
            families.append(_family(own, make_plan(own.graph, asked.policy), asked, chosen_from))
    _rename_groups(families, _suffix(asked))
    return Rewritten(plan, reading, [pair for family in families for pair in family.items()])


def _family(reading: Reading, plan: Plan, asked: Asked, groups: set[bytes]) -> dict[str, Any]:
    """The twins of a function and of what it calls, by the original's name."""
    also = [body.function for body in reading.bodies if _group(body.proto) in groups]
    head = reading.bodies[0].function
    suffix = _suffix(asked, head)
    root, twins = apply(reading, plan, lambda name: f"{name}{suffix}", also)
    return {head: root, **twins}


def _suffix(asked: Asked, head: str = "") -> str:
    """What the names of twins end in: another one for every root, family, policy and device."""
    named = json.dumps([asked.root, head, asked.device, asked.policy.to_dict()], sort_keys=True)
    digest = blake2b(named.encode(), digest_size=8).hexdigest()
    return f"__{asked.policy.low}_{digest}"


def _members(library: Mapping[str, Any], groups: set[bytes], known: dict[str, bytes]) -> set[str]:
    """The functions of these groups: TensorFlow may choose any of them, so all of them need a twin."""
    if not groups:
        return set()
    for name in library:
        if name not in known and name in library:
            known[name] = _group(library[name])
    return {name for name, group in known.items() if group in groups and name in library}


def _group(function: Any) -> bytes:
    return function.attr[GROUP].s if GROUP in function.attr else b""


def _rename_groups(families: Sequence[dict[str, Any]], suffix: str) -> None:
    """Give twins a group of their own, so that TensorFlow never chooses an original in their place."""
    twins = ChainMap(*families)
    for function in (function for family in families for function in family.values()):
        if group := _group(function):
            function.attr[GROUP].s = group + suffix.encode()
        for attribute in PARTNERS:
            if attribute in function.attr and (partner := function.attr[attribute].s.decode()) in twins:
                function.attr[attribute].s = twins[partner].signature.name.encode()
