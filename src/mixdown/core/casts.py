"""The casts that an assignment of paints takes: `casts_of`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mixdown.core.graph import Graph
    from mixdown.core.paint import Paint


class Cast(NamedTuple):
    """A conversion that the plan inserts behind a tensor, for all its consumers of the other paint."""

    tensor: int
    to: Paint


def casts_of(graph: Graph, paints: Sequence[Paint]) -> list[Cast]:
    """One cast behind every tensor that is read in another paint than it is made in."""
    out = []
    for index, tensor in enumerate(graph.tensors):
        made = paints[tensor.site]
        wanted = next((paints[site] for site in tensor.consumers if paints[site] is not made), None)
        if wanted is not None:
            out.append(Cast(index, wanted))
    return out
