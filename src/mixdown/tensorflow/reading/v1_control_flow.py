"""What TensorFlow 1 graphs bring along: loops made of Enter, Merge, NextIteration, and reference variables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixdown.core import Agreement, Role, Tie
from mixdown.errors import GraphError

if TYPE_CHECKING:
    from mixdown.tensorflow.reading.builder import Chapter, Draft

REFERENCE_VARIABLES = {"Variable", "VariableV2"}


def tie_recurrent_edges(draft: Draft, chapter: Chapter) -> None:
    """A NextIteration takes the paint of the Merges it feeds: nothing may stand between them.

    Raises:
        GraphError: a NextIteration feeds anything but a Merge.
    """
    nodes = chapter.body.nodes
    fed: dict[int, list[int]] = {i: [] for i, node in enumerate(nodes) if node.op == "NextIteration"}
    if not fed:
        return
    for index, sources in enumerate(chapter.wiring.inputs):
        for source, _ in sources:
            if source in fed:
                _require_merge(nodes[source], nodes[index])
                fed[source].append(index)
    for index, merges in fed.items():
        site = chapter.output_site(index, 0)
        if site >= 0 and merges:
            voters = tuple(sorted({chapter.output_site(merge, 0) for merge in merges}))
            draft.ties.append(Tie(voters, Agreement.UNANIMOUS, followers=(site,)))


def _require_merge(node: object, consumer: object) -> None:
    if consumer.op != "Merge":  # type: ignore[attr-defined]
        raise GraphError(
            f"The NextIteration {node.name!r} feeds {consumer.name!r} ({consumer.op}): "  # type: ignore[attr-defined]
            f"it may feed nothing but a Merge."
        )


def mark_variable_reads(draft: Draft, chapter: Chapter) -> None:
    """An Identity on a reference variable, and an Enter behind it, is that variable's value and stays as it is."""
    nodes, inputs = chapter.body.nodes, chapter.wiring.inputs
    identities = [index for index, node in enumerate(nodes) if node.op == "Identity"]
    queue = [index for index in identities if _op(chapter, inputs[index]) in REFERENCE_VARIABLES]
    enters: dict[int, list[int]] = {}
    if queue:
        for index, node in enumerate(nodes):
            if node.op == "Enter":
                enters.setdefault(inputs[index][0][0], []).append(index)
    for read in queue:
        queue.extend(enters.get(read, ()))
        site = chapter.output_site(read, 0)
        if site >= 0:
            draft.sites[site] = draft.sites[site]._replace(role=Role.VARIABLE_READ)


def _op(chapter: Chapter, sources: list[tuple[int, int]]) -> str:
    node = sources[0][0]
    return "" if node < 0 else chapter.body.nodes[node].op
