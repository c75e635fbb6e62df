"""Control flow as ties between sites: calls and functional loops (`tie_calls`), and loops of TensorFlow 1.

No cast can stand between a call and the arguments and results of its function, nor on the edge that closes a loop of
Enter, Merge and NextIteration (`tie_recurrent_edges`). Reads of reference variables are marked (`mark_variable_reads`).
"""

from collections.abc import Iterator

from mixdown.core import Agreement, Role, Tie
from mixdown.core.disjoint_sets import DisjointSets
from mixdown.errors import GraphError
from mixdown.tensorflow.protos import bodies
from mixdown.tensorflow.reading.builder import Chapter, Draft

Call = tuple["Chapter", int, "Chapter"]
"""The caller, its node, and the callee."""

REFERENCE_VARIABLES = {"Variable", "VariableV2"}


def calls(draft: Draft) -> Iterator[Call]:
    """Every call in the tree that is followed."""
    by_name = {chapter.body.function: chapter for chapter in draft.chapters}
    for chapter in draft.chapters:
        for index, names in bodies.calls(chapter.body.nodes, draft.library):
            for name in names:
                yield chapter, index, by_name[name]


def tie_calls(draft: Draft) -> None:
    """Let values flow between calls and callees, and tie the sites that one value passes through without a cast."""
    carried = DisjointSets()
    for caller, index, callee in calls(draft):
        first, returns = call_ports(caller, index, callee)
        passed = [(caller.input_site(index, first + place), site) for place, site in enumerate(callee.argument_sites)]
        if any((given < 0) != (taken < 0) for given, taken in passed):
            raise _mismatch(caller, index, callee, "types of their arguments")
        returned = callee.result_sites if returns else ()
        passed += [(result, caller.output_site(index, port)) for port, result in enumerate(returned)]
        for source, target in passed:
            if source >= 0 and target >= 0:
                draft.flows.append((source, target))
                carried.join(source, target)
    for group in carried.sets():
        draft.ties.append(Tie(tuple(group), Agreement.UNANIMOUS))


def call_ports(caller: Chapter, index: int, callee: Chapter) -> tuple[int, bool]:
    """The first input of a call that is an argument of the callee, and whether the callee's results are the call's.

    Raises:
        GraphError: the numbers of arguments or results differ.
    """
    node, signature = caller.body.nodes[index], caller.signatures[index]
    first = 1 if node.op in bodies.PREDICATED else 0
    returns = not (node.op in bodies.LOOPS and node.attr["cond"].func.name == callee.body.function)
    taken, given = len(callee.argument_sites), len(signature.inputs) - first
    if taken != given or (returns and len(callee.result_sites) != len(signature.outputs)):
        raise _mismatch(caller, index, callee, "number of arguments or results")
    return first, returns


def _mismatch(caller: Chapter, index: int, callee: Chapter, what: str) -> GraphError:
    node = caller.body.nodes[index]
    return GraphError(
        f"Node {node.name!r} ({node.op}) and the function {callee.body.function!r} it calls differ in the {what}."
    )


def tie_recurrent_edges(draft: Draft, chapter: Chapter) -> None:
    """Tie every NextIteration to the Merges that read it: no cast may stand between them.

    Raises:
        GraphError: something else than a Merge reads a NextIteration.
    """
    nodes = chapter.body.nodes
    fed: dict[int, list[int]] = {i: [] for i, node in enumerate(nodes) if node.op == "NextIteration"}
    for index, sources in enumerate(chapter.inputs if fed else ()):
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
    nodes, inputs = chapter.body.nodes, chapter.inputs
    variables = {index for index, node in enumerate(nodes) if node.op in REFERENCE_VARIABLES}
    reads = [i for i, node in enumerate(nodes) if node.op == "Identity" and inputs[i][0][0] in variables]
    enters: dict[int, list[int]] = {}
    for index, node in enumerate(nodes if reads else ()):
        if node.op == "Enter":
            enters.setdefault(inputs[index][0][0], []).append(index)
    for read in bodies.reached(reads, lambda index: enters.get(index, ())):
        site = chapter.output_site(read, 0)
        if site >= 0:
            draft.sites[site] = draft.sites[site]._replace(role=Role.VARIABLE_READ)
