"""Where the value of a variable goes on its way to and from a checkpoint. Start with `Trails.follow`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from mixdown.tensorflow.convert.handles import Edit, Place
from mixdown.tensorflow.protos.bodies import calls

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mixdown.tensorflow.convert.body_editor import Reader, Sheet
    from mixdown.tensorflow.protos.wiring import Source

CALLS_BY_LIST = {"PartitionedCall", "StatefulPartitionedCall"}
"""Calls that list the types of their arguments in `Tin`."""


class Trail(NamedTuple):
    """Everything that only moves a value on, and who reads it in the end."""

    sources: list[tuple[str, Source]]  # under which the value is known: body and source
    edits: list[Edit]  # types that change with it
    arguments: list[tuple[str, int]]  # arguments of functions that carry it
    ends: list[tuple[str, Reader]]


class Trails:
    """The way of values through the bodies of a model."""

    def __init__(self, sheets: Mapping[str, Sheet], library: Mapping[str, Any]) -> None:
        self._sheets = sheets
        self._called: dict[tuple[str, int], list[str]] = {}
        for body, sheet in sheets.items():
            self._called.update({(body, index): names for index, names in calls(sheet.nodes, library)})
        self._callers = Counter(name for names in self._called.values() for name in names)

    def follow(self, body: str, source: Source) -> Trail:
        """Follow a value through identities, and into functions that are called from one place only."""
        trail = Trail([(body, source)], [], [], [])
        for here, known in trail.sources:
            for reader in self._sheets[here].readers(known):
                self._step(here, reader, trail)
        return trail

    def _step(self, body: str, reader: Reader, trail: Trail) -> None:
        node = self._sheets[body].nodes[reader.node] if reader.node >= 0 else None
        callees = self._called.get((body, reader.node), [])
        if node is not None and node.op == "Identity":
            trail.edits.append(Edit(Place(body, reader.node), "T"))
            trail.sources.append((body, (reader.node, 0)))
        elif node is not None and node.op in CALLS_BY_LIST and [self._callers[name] for name in callees] == [1]:
            trail.edits.append(Edit(Place(body, reader.node), "Tin", reader.position))
            trail.arguments.append((callees[0], reader.position))
            trail.sources.append((callees[0], (-1 - reader.position, 0)))
        else:
            trail.ends.append((body, reader))
