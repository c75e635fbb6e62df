"""Disjoint sets of small integers, joined pair by pair."""

from __future__ import annotations


class DisjointSets:
    """A union-find structure that grows on demand."""

    def __init__(self) -> None:
        self._parent: dict[int, int] = {}

    def find(self, item: int) -> int:
        """The representative of an item's set."""
        parent = self._parent
        root = item
        while (above := parent.get(root, root)) != root:
            root = above
        while (above := parent.get(item, item)) != root:
            parent[item], item = root, above
        return root

    def join(self, one: int, other: int) -> None:
        """Put two items into one set; the smaller representative stays."""
        low, high = sorted((self.find(one), self.find(other)))
        self._parent[high] = low
        self._parent.setdefault(low, low)

    def sets(self) -> list[list[int]]:
        """Every set of joined items, each sorted, in the order of their smallest."""
        groups: dict[int, list[int]] = {}
        for item in sorted(self._parent):
            groups.setdefault(self.find(item), []).append(item)
        return list(groups.values())
