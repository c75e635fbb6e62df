"""Tensor lists: the dtype of the elements is hidden behind a variant handle, so all ops on one list must agree on it.

Start with `tie_lists`. A vertex is a (body, node, variant type attribute); handles flow along edges between vertices,
also into and out of functions. Connected vertices belong to one list, or to lists that are made of one another.
"""

from collections import defaultdict
from collections.abc import Callable

from mixdown.core import Agreement, Tie
from mixdown.core.disjoint_sets import DisjointSets
from mixdown.rules.rule_set import kinds
from mixdown.tensorflow.protos.bodies import followed, reached
from mixdown.tensorflow.protos.signatures import VARIANT
from mixdown.tensorflow.reading.builder import ARGUMENT, RESULT, Chapter, Draft
from mixdown.tensorflow.reading.control_flow import call_ports, calls

# Take elements out.
READERS = kinds("""
    TensorListConcat TensorListConcatV2 TensorListGather TensorListGetItem TensorListPopBack TensorListStack
""")
# Put elements in.
WRITERS = kinds("""
    TensorListFromTensor TensorListPushBack TensorListPushBackBatch TensorListScatter
    TensorListScatterIntoExistingList TensorListScatterV2 TensorListSetItem TensorListSplit
""")
# Pass a handle on without access to the elements, or access them whatever their dtype is.
CARRIERS = kinds("""
    AddN ConcatV2 Enter Exit ExpandDims Gather GatherNd GatherV2 Identity IdentityN Merge NextIteration Pack
    PreventGradient Reshape Select SelectV2 Slice Snapshot Split SplitV Squeeze StopGradient StridedSlice Switch Tile
    Transpose Unpack ZerosLike
""")

Vertex = tuple[int, int, str]


class HandleFlow:
    """All vertices of a tree, numbered as they are found, and the edges between them."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._numbers: dict[Vertex, int] = {}
        self.sources: dict[int, list[int]] = defaultdict(list)  # per vertex, those that pass handles to it
        self.connected = DisjointSets()
        for chapter in draft.chapters:
            self._add_wires(chapter)
        for call in calls(draft) if self._numbers else ():
            self._add_call(*call)
        self.vertices = list(self._numbers)

    def _edge(self, source: Vertex, target: Vertex) -> None:
        one, other = (self._numbers.setdefault(vertex, len(self._numbers)) for vertex in (source, target))
        self.sources[other].append(one)
        self.connected.join(one, other)

    def _add_wires(self, chapter: Chapter) -> None:
        for index, signature in enumerate(chapter.signatures):
            for position, label in enumerate(signature.handles_in):
                if label:
                    source = _output(chapter, *chapter.inputs[index][position])
                    self._edge(source, (chapter.index, index, label))
        for position, (_, _, dtype) in enumerate(chapter.body.results):
            if dtype == VARIANT:
                source = _output(chapter, *chapter.results[position])
                self._edge(source, (chapter.index, RESULT, str(position)))

    def _add_call(self, caller: Chapter, index: int, callee: Chapter) -> None:
        first, returns = call_ports(caller, index, callee)
        signature = caller.signatures[index]
        for position, (_, dtype) in enumerate(callee.body.arguments):
            if dtype == VARIANT:
                given = (caller.index, index, signature.handles_in[first + position])
                self._edge(given, (callee.index, ARGUMENT, str(position)))
        for position, (_, _, dtype) in enumerate(callee.body.results if returns else ()):
            if dtype == VARIANT:
                taken = (caller.index, index, signature.handles_out[position])
                self._edge((callee.index, RESULT, str(position)), taken)

    def kind(self, number: int) -> str:
        """The op of a vertex, "" if it is an argument or a result."""
        body, node, _ = self.vertices[number]
        return self._draft.chapters[body].body.nodes[node].op if node >= 0 else ""

    def element(self, number: int) -> int:
        """The float32 element site of a list op, -1 for other vertices."""
        body, node, _ = self.vertices[number]
        return self._draft.chapters[body].site(node, "element_dtype") if "TensorList" in self.kind(number) else -1


def _output(chapter: Chapter, node: int, port: int) -> Vertex:
    if node < 0:
        return (chapter.index, ARGUMENT, str(-1 - node))
    return (chapter.index, node, chapter.signatures[node].handles_out[port])


def tie_lists(draft: Draft, may_change: Callable[[Chapter, int], bool]) -> None:
    """Tie the element sites of every list, and let elements flow from the ops that write them to those that read them.

    Args:
        draft: the graph under construction.
        may_change: whether a node may change its types; elements do not flow through one that may not.
    """
    handles = HandleFlow(draft)

    def passed_by(number: int) -> list[int]:
        vertices = [(source, handles.vertices[source]) for source in handles.sources[number]]
        return [source for source, (body, node, _) in vertices if node < 0 or may_change(draft.chapters[body], node)]

    for group in handles.connected.sets():
        elements = sorted(site for site in map(handles.element, group) if site >= 0)
        if elements:
            frozen = _escape(draft, [handles.vertices[number] for number in group])
            draft.ties.append(Tie(tuple(elements), Agreement.SPREAD, frozen=frozen))
        for number in group:
            target = handles.element(number)
            if target < 0 or handles.kind(number) not in READERS:
                continue
            for before in reached([number], passed_by):
                if handles.kind(before) in WRITERS and (source := handles.element(before)) >= 0:
                    draft.flows.append((source, target))


def _escape(draft: Draft, members: list[Vertex]) -> str | None:
    """Why a list must stay float32: its handle comes from or goes to a place that cannot be rewritten."""
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
            return f"its tensor list is also handled by `{proto.name}` ({proto.op}), which mixdown cannot follow"
    return None
