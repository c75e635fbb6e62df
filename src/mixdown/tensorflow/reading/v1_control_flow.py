"""Control flow and variables of TensorFlow 1: loops of Enter, Merge and NextIteration, and reference variables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixdown.core import Agreement, Role, Tie
from mixdown.errors import GraphError
from mixdown.tensorflow.protos.bodies import reached

if TYPE_CHECKING:
    from mixdown.tensorflow.reading.builder import Chapter, Draft

REFERENCE_VARIABLES = {"Variable", "VariableV2"}


def tie_recurrent_edges(draft: Draft, chapter: Chapter) -> None:
    """Tie every NextIteration to the Merges that read it: no cast may stand between them.

    Raises:
        GraphError: something else than a Merge reads a NextIteration.
    """
    nodes = chapter.body.nodes
    fed: dict[int, list[int]] = {i: [] for i, node in enumerate(nodes) if node.op == "NextIteration"}
    for index, sources in enumerate(chapter.wiring.inputs if fed else ()):
        for source in (source for source, _ in sources if source in fed):
            if nodes[index].op != "Merge":
                raise GraphError(
                    f"The NextIteration {nodes[source].name!r} feeds {nodes[index].name!r} ({nodes[index].op}): "
                    f"it may feed nothing but a Merge."
                )
            fed[source].append(index)
    for index, merges in fed.items():
        site = chapter.output_site(index, 0)
        if site >= 0 and merges:
            voters = tuple(sorted({chapter.output_site(merge, 0) for merge in merges}))
            draft.ties.append(Tie(voters, Agreement.UNANIMOUS, followers=(site,)))


def mark_variable_reads(draft: Draft, chapter: Chapter) -> None:
    """Mark every Identity on a reference variable, and every Enter behind one, as a read of that variable."""
    nodes, inputs = chapter.body.nodes, chapter.wiring.inputs
    variables = {index for index, node in enumerate(nodes) if node.op in REFERENCE_VARIABLES}
    reads = [i for i, node in enumerate(nodes) if node.op == "Identity" and inputs[i][0][0] in variables]
    enters: dict[int, list[int]] = {}
    for index, node in enumerate(nodes if reads else ()):
        if node.op == "Enter":
            enters.setdefault(inputs[index][0][0], []).append(index)
    for read in reached(reads, lambda index: enters.get(index, ())):
        site = chapter.output_site(read, 0)
        if site >= 0:
            draft.sites[site] = draft.sites[site]._replace(role=Role.VARIABLE_READ)
