"""The graph of a program while it is being read: `GraphBuilder` adds ops, sites and tensors as they are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mixdown.core import Agreement, Graph, Op, Role, Site, Tensor, Tie
from mixdown.core.graph import Constant

NONE = -1
"""Stands where a port has no site, because it is no float32 array."""


class GraphBuilder:
    """Ops and tensors so far, with where each op comes from."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self.sites: list[Site] = []
        self.origins: list[tuple[Any, ...]] = []  # per op, its source info and those of the calls around it
        self._ties: list[Tie] = []
        self._flows: list[tuple[int, int]] = []
        self._tensors: list[tuple[str, int, bool, Constant | None, int]] = []
        self._readers: list[list[int]] = []
        self._shapes: list[tuple[int, ...]] = []
        self._contracts: list[bool] = []
        self._work: dict[int, int] = {}
        self._names: dict[str, int] = {}

    def op(
        self,
        name: str,
        kind: str,
        attributes: Sequence[str] = ("type",),
        *,
        frozen: str | None = None,
        role: Role = Role.PLAIN,
        origin: tuple[Any, ...] = (),
        work: int = 0,
        whole: bool = False,
        contracts: bool = True,
    ) -> tuple[int, ...]:
        """Add an op; returns its sites, one an attribute."""
        index, first = len(self.ops), len(self.sites)
        sites = (first,) if len(attributes) == 1 else tuple(range(first, first + len(attributes)))
        self.sites += [Site(index, attribute, True, True, role, whole) for attribute in attributes]  # noqa: FBT003 - a tuple
        self.ops.append(Op(self._unique(name), kind, "", sites, frozen, index, True))  # noqa: FBT003 - likewise
        self.origins.append(origin)
        self._contracts.append(contracts)
        if work:
            self._work[index] = work
        return sites

    def tensor(
        self, site: int, shape: Sequence[int], times: int, *, constant: Constant | None = None, folds: bool = False
    ) -> int:
        """Add a value that a site makes."""
        name = self.ops[self.sites[site].op].name
        self._tensors.append((name, site, folds, constant, times))
        self._readers.append([])
        self._shapes.append(tuple(shape))
        return len(self._tensors) - 1

    def read(self, tensor: int, site: int) -> None:
        """Let a site read a value."""
        self._readers[tensor].append(site)

    def flow(self, source: int, target: int) -> None:
        """Let a site follow another of the same op."""
        self._flows.append((source, target))

    def conduit(self, name: str, kind: str, *, origin: tuple[Any, ...]) -> int:
        """Add a site that carries a value into or out of a loop or a condition."""
        (site,) = self.op(name, kind, role=Role.CONDUIT, origin=origin)
        self._ties.append(Tie((site,), Agreement.UNANIMOUS))
        return site

    def graph(self) -> Graph:
        """What was read."""
        tensors = tuple(
            Tensor(name, site, tuple(readers), folds, constant, times)
            for (name, site, folds, constant, times), readers in zip(self._tensors, self._readers, strict=True)
        )
        work = [self._work.get(index, 0) for index in range(len(self.ops))]
        return Graph(
            tuple(self.ops),
            tuple(self.sites),
            tensors,
            tuple(self._ties),
            tuple(self._flows),
            self._shapes,
            work,
            contracts=self._contracts,
        )

    def _unique(self, name: str) -> str:
        count = self._names.get(name, 0)
        self._names[name] = count + 1
        return f"{name}_{count}" if count else name
