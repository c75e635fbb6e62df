"""From the records of a run to the op to blame. Start with `findings`.

An op is a culprit in an execution if one of its outputs was not finite and all its inputs were. Culprits are ordered as
the program is: by the call of the step, by the place of nested calls, by iteration, by place in the function. The first
one counts whose values spread: an infinite mask that a softmax takes away again is only mentioned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from mixdown.tensorflow.numerics.probing.health import can_be_culprit
from mixdown.tensorflow.numerics.probing.ports import FLOATS, is_stateful, maker
from mixdown.tensorflow.protos.bodies import CALLS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mixdown.tensorflow.numerics.probing.health import Execution
    from mixdown.tensorflow.numerics.probing.probed_function import Sheet


class Culprit(NamedTuple):
    """A node in an execution of its function; an argument of the function has the node's place."""

    execution: Execution
    node: str

    @property
    def sheet(self) -> Sheet:
        """The function it stands in."""
        return self.execution.tree.sheets[self.execution.sheet]


class Findings(NamedTuple):
    """What to blame, if anything."""

    first: Culprit | None
    came_in: bool  # no op made it
    others: tuple[str, ...]


def findings(executions: Sequence[Execution]) -> Findings:
    """The culprit that counts, and the others; if there is none, what came in bad and spread."""
    culprits = sorted((c for e in executions for c in _made(e)), key=_Order(executions).key)
    first = next((culprit for culprit in culprits if _spreads(culprit)), culprits[0] if culprits else None)
    if first is not None:
        names = dict.fromkeys(culprit.node for culprit in culprits)
        return Findings(first, came_in=False, others=tuple(name for name in names if name != first.node))
    sources = sorted((c for e in executions for c in _came_in(e)), key=_Order(executions).key)
    spreading = next((source for source in sources if _spreads(source)), None)
    return Findings(spreading, came_in=spreading is not None, others=())


def _made(execution: Execution) -> Iterator[Culprit]:
    sheet = execution.tree.sheets[execution.sheet]
    for node in sheet.live if execution.bad else ():
        bad_output = any(port.text in execution.bad for port in sheet.outputs[node.name])
        bad_input = any(port.text in execution.bad for port in sheet.inputs[node.name])
        if bad_output and not bad_input and can_be_culprit(sheet, node):
            yield Culprit(execution, node.name)


def _came_in(execution: Execution) -> Iterator[Culprit]:
    """Values that were not finite before any op of the step touched them."""
    sheet = execution.tree.sheets[execution.sheet]
    if execution.sheet == 0:
        yield from (Culprit(execution, port.text) for port in sheet.arguments if port.text in execution.bad)
    for node in sheet.live:
        from_elsewhere = sheet.has_hidden_inputs(node.name) and not (node.op in CALLS or node.op in sheet.library)
        if from_elsewhere and any(port.text in execution.bad for port in sheet.outputs[node.name]):
            yield Culprit(execution, node.name)


def _spreads(culprit: Culprit) -> bool:
    """Whether a chain of non-finite tensors leads from a culprit to a result, an effect or a call."""
    sheet, bad = culprit.sheet, culprit.execution.bad
    results = {port.text for port in sheet.results}
    reached, queue = {culprit.node}, [culprit.node]
    readers = _readers(sheet)
    for name in queue:
        made = [port.text for port in sheet.outputs.get(name, ())] or [name]
        for text in (text for text in made if text in bad):
            if text in results:
                return True
            for node in readers.get(text, ()):
                if node.op in CALLS or node.op in sheet.library or is_stateful(node, sheet.library):
                    return True
                if node.name not in reached:
                    reached.add(node.name)
                    queue.append(node.name)
    return False


def _readers(sheet: Sheet) -> Mapping[str, list[Any]]:
    out: dict[str, list[Any]] = {}
    for node in sheet.live:
        for port in sheet.inputs[node.name]:
            out.setdefault(port.text, []).append(node)
    return out


class _Order:
    """When things happened, as far as the records tell."""

    def __init__(self, executions: Sequence[Execution]) -> None:
        self._counts: dict[tuple[int, int], int] = {}
        for execution in executions:
            key = (execution.call, execution.sheet)
            self._counts[key] = self._counts.get(key, 0) + 1

    def key(self, culprit: Culprit) -> tuple[int, ...]:
        """The call, then from the outside in: iteration and place of each function on the way, down to the node."""
        execution = culprit.execution
        path: list[int] = []
        sheet, ordinal, node = execution.sheet, execution.ordinal, culprit.node
        while True:
            path[:0] = [ordinal, execution.tree.sheets[sheet].order.get(node, -1)]
            caller = execution.tree.callers.get(sheet)
            if sheet == 0 or caller is None:
                return (execution.call, *path)
            # Executions of a function are spread evenly over those of its caller, which is so for equal iterations.
            runs, outer = self._counts[execution.call, sheet], self._counts.get((execution.call, caller[0]), 1)
            (sheet, node), ordinal = caller, ordinal * outer // runs


def readers_of(sheet: Sheet, node: str) -> list[Any]:
    """The nodes that read a node, in order."""
    found = [n for n in sheet.live if any(maker(port.text) == node for port in sheet.inputs[n.name])]
    return sorted(found, key=lambda n: sheet.order[n.name])


def float_dtype(sheet: Sheet, node: str) -> int:
    """The dtype of a node's first float output, or of an argument."""
    ports = sheet.outputs.get(node) or [port for port in sheet.arguments if port.text == node]
    return next(port.dtype for port in ports if port.dtype in FLOATS)
