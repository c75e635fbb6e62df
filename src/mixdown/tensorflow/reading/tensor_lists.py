"""Tensor lists: their ops hide the dtype of the elements behind a variant handle, so all ops on one list must agree.

Start with `tie_lists`. A vertex is a (body, node, variant type attribute); handles flow along edges between vertices,
also into and out of functions. All vertices that are connected belong to one list, or one family of lists.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from mixdown.core import Agreement, Tie
from mixdown.core.disjoint_sets import DisjointSets
from mixdown.rules.rule_set import kinds
from mixdown.tensorflow.protos.bodies import followed
from mixdown.tensorflow.protos.signatures import VARIANT
from mixdown.tensorflow.reading.builder import ARGUMENT, RESULT
from mixdown.tensorflow.reading.calls import call_ports, calls

if TYPE_CHECKING:
    from collections.abc import Callable

    from mixdown.tensorflow.reading.builder import Chapter, Draft

# Take elements out.
READERS = kinds("""
    TensorListConcat TensorListConcatV2 TensorListGather TensorListGetItem TensorListPopBack TensorListStack
""")
# Put elements in.
WRITERS = kinds("""
    TensorListFromTensor TensorListPushBack TensorListPushBackBatch TensorListScatter
    TensorListScatterIntoExistingList TensorListScatterV2 TensorListSetItem TensorListSplit
""")
# Hand a handle on without looking inside, or look inside whatever the dtype is.
CARRIERS = kinds("""
    AddN ConcatV2 Enter Exit ExpandDims Gather GatherNd GatherV2 Identity IdentityN Merge NextIteration Pack
    PreventGradient Reshape Select SelectV2 Slice Snapshot Split SplitV Squeeze StopGradient StridedSlice Switch Tile
    Transpose Unpack ZerosLike
""")

Vertex = tuple[int, int, str]


class Handles:
    """Every vertex of the tree, and the edges along which handles flow."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._numbers: dict[Vertex, int] = {}
        self.vertices: list[Vertex] = []
        self.sources: dict[int, list[int]] = defaultdict(list)
        self.connected = DisjointSets()
        for chapter in draft.chapters:
            self._wires(chapter)
        if self.vertices:
            for call in calls(draft):
                self._call(*call)

    def _number(self, vertex: Vertex) -> int:
        if vertex not in self._numbers:
            self._numbers[vertex] = len(self.vertices)
            self.vertices.append(vertex)
        return self._numbers[vertex]

    def _edge(self, source: Vertex, target: Vertex) -> None:
        one, other = self._number(source), self._number(target)
        self.sources[other].append(one)
        self.connected.join(one, other)

    def _wires(self, chapter: Chapter) -> None:
        for index, signature in enumerate(chapter.signatures):
            for position, label in enumerate(signature.handles_in):
                if label:
                    source = _output(chapter, *chapter.wiring.inputs[index][position])
                    self._edge(source, (chapter.index, index, label))
        for position, (_, _, dtype) in enumerate(chapter.body.results):
            if dtype == VARIANT:
                source = _output(chapter, *chapter.wiring.results[position])
                self._edge(source, (chapter.index, RESULT, str(position)))

    def _call(self, caller: Chapter, index: int, callee: Chapter) -> None:
        first, returns = call_ports(caller, index, callee)
        signature = caller.signatures[index]
        for position, (_, dtype) in enumerate(callee.body.arguments):
            if dtype == VARIANT:
                label = signature.handles_in[first + position]
                self._edge((caller.index, index, label), (callee.index, ARGUMENT, str(position)))
        for position, (_, _, dtype) in enumerate(callee.body.results if returns else ()):
            if dtype == VARIANT:
                self._edge(
                    (callee.index, RESULT, str(position)), (caller.index, index, signature.handles_out[position])
                )


def _output(chapter: Chapter, node: int, port: int) -> Vertex:
    if node < 0:
        return (chapter.index, ARGUMENT, str(-1 - node))
    return (chapter.index, node, chapter.signatures[node].handles_out[port])


def tie_lists(draft: Draft, may_change: Callable[[Chapter, int], bool]) -> None:
    """Tie the element sites of every list, and let elements flow from those who write to those who read.

    Args:
        draft: the graph in the making.
        may_change: whether a node may change; elements do not flow through a handle at one that may not.
    """
    handles = Handles(draft)
    for group in handles.connected.sets():
        members = [handles.vertices[number] for number in group]
        elements = sorted(site for site in (_element(draft, vertex) for vertex in members) if site >= 0)
        if elements:
            draft.ties.append(Tie(tuple(elements), Agreement.SPREAD, frozen=_escape(draft, members)))
            _flow(draft, handles, group, may_change)


def _kind(draft: Draft, vertex: Vertex) -> str:
    body, node, _ = vertex
    return draft.chapters[body].body.nodes[node].op if node >= 0 else ""


def _element(draft: Draft, vertex: Vertex) -> int:
    """The float32 element site of a list op, -1 for other vertices."""
    body, node, _ = vertex
    if node < 0 or "TensorList" not in _kind(draft, vertex):
        return -1
    return draft.chapters[body].site(node, "element_dtype")


def _escape(draft: Draft, members: list[Vertex]) -> str | None:
    """Why a list must stay float32: its handle comes from, goes to, or is stored where we cannot follow it."""
    for body, node, label in members:
        chapter = draft.chapters[body]
        if node < 0:
            if body == 0:
                return "its tensor list comes from or goes to the caller of the function"
            continue
        proto = chapter.body.nodes[node]
        if body == 0 and proto.name in draft.preserved:
            return f"its tensor list is fed or fetched, at `{proto.name}`"
        if label == "element_dtype":
            return f"its tensor list is an element of another list, at `{proto.name}`"
        if "TensorList" not in proto.op and proto.op not in CARRIERS and not followed(proto, draft.library):
            return f"its tensor list is also handled by `{proto.name}` ({proto.op}), which we cannot see into"
    return None


def _flow(draft: Draft, handles: Handles, group: list[int], may_change: Callable[[Chapter, int], bool]) -> None:
    """A value written to a list flows to every read that sees the list after that write."""
    for number in group:
        vertex = handles.vertices[number]
        if _kind(draft, vertex) not in READERS:
            continue
        target = _element(draft, vertex)
        queue, seen = [number], {number}
        for here in queue:
            if _kind(draft, handles.vertices[here]) in WRITERS:
                source = _element(draft, handles.vertices[here])
                if source >= 0 and target >= 0:
                    draft.flows.append((source, target))
            fresh = [
                source
                for source in handles.sources[here]
                if source not in seen and _passes(draft, handles.vertices[source], may_change)
            ]
            seen.update(fresh)
            queue.extend(fresh)


def _passes(draft: Draft, vertex: Vertex, may_change: Callable[[Chapter, int], bool]) -> bool:
    body, node, _ = vertex
    return node < 0 or may_change(draft.chapters[body], node)
