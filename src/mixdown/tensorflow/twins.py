"""Twins of functions: the rewritten copies that are run in place of the originals. Start with `Twins.of`."""

from __future__ import annotations

import warnings
from collections import ChainMap
from collections.abc import Mapping
from itertools import count
from threading import RLock
from typing import TYPE_CHECKING, Any, NamedTuple

from mixdown.core import MixdownError, MixdownWarning, make_plan
from mixdown.tensorflow.apply import apply
from mixdown.tensorflow.bodies import GROUP, function_body
from mixdown.tensorflow.conflicts import mixed_keras_policy
from mixdown.tensorflow.devices import device_type, machine_default
from mixdown.tensorflow.pause import collector_paused
from mixdown.tensorflow.read import read

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mixdown.core import Plan, Policy
    from mixdown.tensorflow.read import Reading

PARTNERS = ("forward_function_name", "backward_function_name")
"""Attributes by which the functions of one group name each other."""

_numbers = count(1)


class Twin(NamedTuple):
    """What stands in for a function: the name to call, all functions registered for it, and the plan behind them."""

    name: bytes
    originals: Mapping[str, str]  # registered twin -> original
    plan: Plan | None  # None if the function runs as it is
    reason: str  # why it does, "" if it does not


class Registered(Mapping[str, Any]):
    """The functions that a TensorFlow context knows, fetched when asked for."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._found: dict[str, Any] = {}

    def __contains__(self, name: object) -> bool:
        if name not in self._found:
            known = self._context.has_function(name)
            self._found[str(name)] = self._context.get_function_def(name) if known else None
        return self._found[str(name)] is not None

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            raise KeyError(name)
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._context.list_function_names())

    def __len__(self) -> int:
        return len(self._context.list_function_names())

    def __bool__(self) -> bool:
        return True


class Twins:
    """The twins made for one policy."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.known: dict[tuple[bytes, str], Twin] = {}  # by the name of the function and the device it is called on
        self._made: dict[tuple[bytes, str], Twin] = {}  # by the type of that device, which is all that matters
        self._groups: dict[str, bytes] = {}
        self._lock = RLock()

    def of(self, context: Any, name: bytes, device: str) -> Twin:
        """The twin of a function, made on first use."""
        with self._lock:
            key = (name, device_type(device) or machine_default())
            if key not in self._made:
                self._made[key] = self._make(context, *key)
            self.known[name, device] = self._made[key]
            return self._made[key]

    def forget(self, name: bytes) -> list[str]:
        """Drop the twins of a function that is going away; returns the names to unregister."""
        with self._lock:
            for key in [key for key in list(self.known) if key[0] == name]:
                del self.known[key]
            gone = [self._made.pop(key) for key in list(self._made) if key[0] == name]
            registered = [twin for one in gone for twin in one.originals]
            for function in (name.decode(), *registered):
                self._groups.pop(function, None)
        return registered

    def _make(self, context: Any, name: bytes, device: str) -> Twin:
        if conflict := mixed_keras_policy():
            warnings.warn(
                f"The dtype policy {conflict} was set after mixed precision was enabled: both now choose precisions. "
                f"Set the policy 'float32' again, or call mixdown.disable_mixed_precision_graph_rewrite().",
                MixdownWarning,
                stacklevel=6,
            )
        try:
            with collector_paused():
                return self._rewrite(context, name, device)
        except MixdownError as error:
            warnings.warn(f"Function {name.decode()} runs in float32: {error}", MixdownWarning, stacklevel=6)
            return Twin(name, {}, None, str(error))

    def _rewrite(self, context: Any, name: bytes, device: str) -> Twin:
        library, root = Registered(context), name.decode()
        reading = read(function_body(library[root]), library, self.policy, default_device=device)
        plan = make_plan(reading.graph, self.policy)
        if not plan.changes_anything:
            return Twin(name, {}, plan, "nothing in it can be low")
        groups = {_group(body.proto) for body in reading.bodies} - {b""}
        families = [self._copies(reading, plan, groups)]
        for partner in sorted(self._partners(library, groups)):
            if not any(partner in family for family in families):
                own = read(function_body(library[partner]), library, self.policy, default_device=device)
                families.append(self._copies(own, make_plan(own.graph, self.policy), groups))
        _rename_groups(families, self.policy.low)
        originals = {twin.signature.name: original for family in families for original, twin in family.items()}
        for twin in (twin for family in families for twin in family.values()):
            context.add_function_def(twin)
        return Twin(families[0][root].signature.name.encode(), originals, plan, "")

    def _copies(self, reading: Reading, plan: Plan, groups: set[bytes]) -> dict[str, Any]:
        """The twins of a function and of what it calls, by the original's name."""
        also = [body.function for body in reading.bodies if _group(body.proto) in groups]
        root, twins = apply(reading, plan, self._new_name, also)
        return {reading.bodies[0].function: root, **twins}

    def _partners(self, library: Registered, groups: set[bytes]) -> set[str]:
        """The functions of these groups: TensorFlow may choose any of them, so all of them need a twin."""
        if not groups:
            return set()
        for name in library:
            if name not in self._groups and name in library:
                self._groups[name] = _group(library[name])
        return {name for name, group in self._groups.items() if group in groups and name in library}

    def _new_name(self, name: str) -> str:
        return f"{name}__{self.policy.low}_{next(_numbers)}"


def _group(function: Any) -> bytes:
    return function.attr[GROUP].s if GROUP in function.attr else b""


def _rename_groups(families: Sequence[dict[str, Any]], low: str) -> None:
    """Give twins a group of their own, so that TensorFlow never chooses an original in their place."""
    suffix, twins = f"__{low}_{next(_numbers)}".encode(), ChainMap(*families)
    for function in (function for family in families for function in family.values()):
        if group := _group(function):
            function.attr[GROUP].s = group + suffix
        for attribute in PARTNERS:
            if attribute in function.attr and (partner := function.attr[attribute].s.decode()) in twins:
                function.attr[attribute].s = twins[partner].signature.name.encode()
