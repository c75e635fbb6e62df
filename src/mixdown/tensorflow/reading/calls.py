"""Calls and functional loops: the sites of a call and of the function's signature carry the same values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixdown.core import Agreement, Tie
from mixdown.errors import GraphError
from mixdown.tensorflow.protos import bodies

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mixdown.tensorflow.reading.builder import Chapter, Draft

Call = tuple["Chapter", int, "Chapter"]
"""The caller, its node, and the callee."""


def calls(draft: Draft) -> Iterator[Call]:
    """Every call in the tree that is followed."""
    by_name = {chapter.body.function: chapter for chapter in draft.chapters}
    for chapter in draft.chapters:
        for index, names in bodies.calls(chapter.body.nodes, draft.library):
            for name in names:
                yield chapter, index, by_name[name]


def tie_calls(draft: Draft) -> None:
    """Let values flow between calls and callees, and tie the sites that carry one value."""
    for caller, index, callee in calls(draft):
        first, returns = call_ports(caller, index, callee)
        for position, argument in enumerate(callee.arguments):
            given = caller.input_site(index, first + position)
            if (given < 0) != (argument < 0):
                raise _mismatch(caller, index, callee, "types of their arguments")
            draft.carry(given, argument)
        for port, result in enumerate(callee.results if returns else ()):
            draft.carry(result, caller.output_site(index, port))
    for group in draft.carried.sets():
        draft.ties.append(Tie(tuple(group), Agreement.UNANIMOUS))


def call_ports(caller: Chapter, index: int, callee: Chapter) -> tuple[int, bool]:
    """The first input of a call that is an argument of the callee, and whether the callee's results are the call's.

    Raises:
        GraphError: the numbers of arguments or results differ.
    """
    node, signature = caller.body.nodes[index], caller.signatures[index]
    first = 1 if node.op in bodies.PREDICATED else 0
    returns = not (node.op in bodies.LOOPS and node.attr["cond"].func.name == callee.body.function)
    taken, given = len(callee.arguments), len(signature.inputs) - first
    if taken != given or (returns and len(callee.results) != len(signature.outputs)):
        raise _mismatch(caller, index, callee, "number of arguments or results")
    return first, returns


def _mismatch(caller: Chapter, index: int, callee: Chapter, what: str) -> GraphError:
    node = caller.body.nodes[index]
    return GraphError(
        f"Node {node.name!r} ({node.op}) and the function {callee.body.function!r} it calls differ in the {what}."
    )
