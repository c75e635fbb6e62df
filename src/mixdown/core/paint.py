"""Paint and strokes: what a site may become, and one decision about it. Casts stand where two paints meet."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from mixdown.core.graph import Graph


class Paint(Enum):
    """The precision of a site."""

    LOW = "low"  # the policy's 16-bit dtype
    FULL = "full"  # float32, as it was


class Stroke(NamedTuple):
    """One decision: which paint, which stage gave it, because of which other sites, and for how many bytes."""

    paint: Paint
    stage: str
    because: tuple[int, ...] = ()
    margin: int = 0  # where bytes decided: how many more the other paint would have moved


Canvas = list[Paint | None]
"""The paint of every site so far; None is undecided. Before the last stage, FULL means denied."""

Strokes = dict[int, Stroke]
"""What a stage decided: site -> stroke."""


class Cast(NamedTuple):
    """A conversion that the plan inserts behind a tensor, for all its consumers of the other paint."""

    tensor: int
    to: Paint


def casts_of(graph: Graph, paints: Sequence[Paint], reads: Sequence[Paint] | None = None) -> list[Cast]:
    """One cast behind every tensor that is read in another paint than it is made in.

    Args:
        graph: the graph.
        paints: per site, its paint.
        reads: per site, what it reads, if that is not always its paint.
    """
    reads = paints if reads is None else reads
    out = []
    for index, tensor in enumerate(graph.tensors):
        made = paints[tensor.site]
        wanted = next((reads[site] for site in tensor.consumers if reads[site] is not made), None)
        if wanted is not None:
            out.append(Cast(index, wanted))
    return out
