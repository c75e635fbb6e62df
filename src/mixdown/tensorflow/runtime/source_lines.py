"""Which line of the user's program made an op, where TensorFlow remembers. One function a place to look."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixdown.tensorflow.runtime.private import LoadTracesFromDebugInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from mixdown.core import Graph

MOST_FRAMES = 10_000_000
"""More than the largest models have: debug info from anywhere must not fill the memory."""

LIBRARIES = ("tensorflow", "keras", "tf_keras")
Lookup = dict[str, str]
"""Op -> its line."""


def of_functions(graph: Graph, context: Any) -> list[str]:
    """Per op, its line, as the functions that TensorFlow has registered tell it."""
    return _looked_up(graph, lambda function: _registered(context, function) if function else {})


def of_graph(graph: Graph, user: Any) -> list[str]:
    """Per op, its line, as the operations of a `tf.Graph` and the functions it holds tell it."""
    operations = {operation.name: operation for operation in user.get_operations()}
    traces = {op.name: operations[op.name].traceback for op in graph.ops if not op.function and op.name in operations}
    own = {name: _line(trace) for name, trace in traces.items()}
    return _looked_up(graph, lambda function: {} if function else own)


def of_graph_def(graph: Graph, graph_def: Any) -> list[str]:
    """Per op, its line, if the GraphDef was saved with them."""
    if not graph_def.HasField("debug_info"):
        return [""] * len(graph.ops)
    own = _lines(graph_def.debug_info)
    return _looked_up(graph, lambda function: {} if function else own)


def of_saved_model(graph: Graph, debug_info: Any) -> list[str]:
    """Per op, its line, as the debug info in the folder of a SavedModel tells it, which names ops `op@function`."""
    lines = _lines(debug_info)
    return [lines.get(f"{op.name}@{op.function}", "") for op in graph.ops]


def _looked_up(graph: Graph, lookup: Callable[[str], Lookup]) -> list[str]:
    known = {function: lookup(function) for function in {op.function for op in graph.ops}}
    return [known[op.function].get(op.name, "") for op in graph.ops]


def _registered(context: Any, function: str) -> Lookup:
    return _lines(context.get_graph_debug_info(function)) if context.has_function(function) else {}


def _lines(debug_info: Any) -> Lookup:
    if _frames(debug_info) > MOST_FRAMES:
        return {}
    return {name: _line(trace) for name, trace in LoadTracesFromDebugInfo(debug_info).items()}


def _frames(debug_info: Any) -> int:
    """How many frames the traces have: any number of ops may share a long one."""
    shared = {number: len(trace.frame_id) for number, trace in debug_info.traces_by_id.items()}
    own = sum(len(trace.file_line_cols) + len(trace.frame_id) for trace in debug_info.traces.values())
    return own + sum(shared.get(number, 0) for number in debug_info.name_to_trace_id.values())


def _line(trace: Iterable[Any]) -> str:
    """The innermost frame that is the user's: not a framework's, and not outside the call that made us trace."""
    for frame in reversed(list(trace)):
        if _is_in(frame.filename, _home("mixdown")):
            return ""
        if not any(_is_in(frame.filename, _home(library)) for library in LIBRARIES):
            return f"{frame.filename}:{frame.lineno}, in {frame.name}"
    return ""


def _is_in(filename: str, homes: Sequence[str]) -> bool:
    return filename.startswith(tuple(homes))


@cache
def _home(package: str) -> tuple[str, ...]:
    """Where the files of a package lie."""
    found = find_spec(package)
    places = found.submodule_search_locations if found is not None else None
    return tuple(f"{Path(place)}/" for place in places or ())
