"""Minimum cuts by Dinic's algorithm, in exact integers of any size. Start with `Network.minimum_cut`.

Bytes of a large model do not fit the 32-bit capacities of scipy's solver, and rounded ones would make "cheapest" a
guess. Networks here are small (hard sites are contracted), so plain Python takes milliseconds.
"""

from __future__ import annotations

from typing import NamedTuple

SOURCE, SINK = 0, 1


class Cut(NamedTuple):
    """A cheapest way to part source from sink: the capacity it severs, and the vertices that stay with the source."""

    capacity: int
    source_side: frozenset[int]


class Network:
    """A directed graph with capacities; vertices 0 and 1 are source and sink."""

    def __init__(self) -> None:
        self.size = 2
        self._heads: list[int] = []  # arc -> where it leads; arc ^ 1 is its reverse
        self._room: list[int] = []  # arc -> what can still flow through it
        self._arcs: list[list[int]] = [[], []]  # vertex -> the arcs that leave it

    def add_vertex(self) -> int:
        """A new vertex."""
        self._arcs.append([])
        self.size += 1
        return self.size - 1

    def add_arc(self, tail: int, head: int, capacity: int, back: int = 0) -> None:
        """Let `capacity` flow from tail to head, and `back` the other way."""
        first = len(self._heads)
        self._arcs[tail].append(first)
        self._arcs[head].append(first + 1)
        self._heads += (head, tail)
        self._room += (capacity, back)

    def minimum_cut(self) -> Cut:
        """The cheapest cut; of equally cheap ones, that with the fewest vertices on the source's side."""
        flow = 0
        while (levels := self._levels())[SINK] >= 0:
            flow += self._block(levels)
        return Cut(flow, frozenset(vertex for vertex, level in enumerate(levels) if level >= 0))

    def _levels(self) -> list[int]:
        """Per vertex, its distance from the source along arcs with room, -1 if there is no way."""
        heads, room, arcs = self._heads, self._room, self._arcs
        levels = [-1] * self.size
        levels[SOURCE] = 0
        queue = [SOURCE]
        for here in queue:
            onward = levels[here] + 1
            for arc in arcs[here]:
                there = heads[arc]
                if levels[there] < 0 and room[arc]:
                    levels[there] = onward
                    queue.append(there)
        return levels

    def _block(self, levels: list[int]) -> int:
        """Send flow along shortest ways until each of them has a full arc; returns how much was sent."""
        heads, room, arcs = self._heads, self._room, self._arcs
        left = [len(leaving) for leaving in arcs]  # per vertex, how many of its arcs may still lead on
        path: list[int] = []
        sent, here = 0, SOURCE
        while True:
            if here == SINK:
                sent += self._send(path)
                full = next(index for index, arc in enumerate(path) if not room[arc])
                here = heads[path[full] ^ 1]
                del path[full:]
            elif left[here]:
                arc = arcs[here][left[here] - 1]
                if room[arc] and levels[heads[arc]] == levels[here] + 1:
                    path.append(arc)
                    here = heads[arc]
                else:
                    left[here] -= 1
            elif path:
                here = heads[path.pop() ^ 1]
                left[here] -= 1
            else:
                return sent

    def _send(self, path: list[int]) -> int:
        """Fill a way to the sink; returns how much it took."""
        room = self._room
        least = min([room[arc] for arc in path])
        for arc in path:
            room[arc] -= least
            room[arc ^ 1] += least
        return least
