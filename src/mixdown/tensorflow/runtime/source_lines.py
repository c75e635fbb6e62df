"""Which line of the user's program made an op, where TensorFlow knows. One function for each place to look it up.

`name_originals` brings errors into the user's terms: the names of the original functions, and the user's lines.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mixdown.core import Graph
from mixdown.tensorflow.runtime.private import LoadTracesFromDebugInfo

MOST_FRAMES = 10_000_000
"""More than the largest models have: debug info from an untrusted file must not fill the memory."""

LIBRARIES = ("tensorflow", "keras", "tf_keras")

_UNKNOWN = "dummy_file_name:10:dummy_function_name"
"""What XLA's compiler says of an op whose source lines it does not know: twins are registered without any."""

_PLACES = (
    re.compile(rf"(?P<before>{{{{node (?P<node>[^}}]+)}}}}\nThe op is created at: \n){_UNKNOWN}(?P<after>)"),
    re.compile(rf"(?P<before>Stack trace for op definition: \n){_UNKNOWN}(?P<after>\s+\[\[(?P<node>[^\]]+)\]\])"),
)
"""Where it says that, and of which op."""

_ADDED = re.compile(r"/(?:cast_\d+_to_b?float\d+|stored_\d+)")
"""What the names of a cast and of a barrier add to the name of the op whose value they are given."""


def of_functions(graph: Graph, context: Any) -> list[str]:
    """Per op, its line, from the functions that TensorFlow has registered."""
    known = {function: _lines(traces(context, function)) for function in {op.function for op in graph.ops}}
    return [known[op.function].get(op.name, "") for op in graph.ops]


def of_op(context: Any, function: str, op: str) -> str:
    """The line of one op of a registered function, "" if it is not known."""
    frame = _users_frame(traces(context, function).get(op, ()), past_mixdown=True)
    return "" if frame is None else f"{frame.filename}:{frame.lineno} in {frame.name}"


def of_graph(graph: Graph, user: Any) -> list[str]:
    """Per op, its line, from the operations of a `tf.Graph`."""
    outermost = {op.name for op in graph.ops if not op.function}
    return _outermost(graph, {op.name: op.traceback for op in user.get_operations() if op.name in outermost})


def of_graph_def(graph: Graph, graph_def: Any) -> list[str]:
    """Per op, its line, if the GraphDef was saved with them."""
    return _outermost(graph, _traces(graph_def.debug_info))


def of_saved_model(graph: Graph, debug_info: Any) -> list[str]:
    """Per op, its line, from the debug info in the folder of a SavedModel, which names ops `op@function`."""
    lines = _lines(_traces(debug_info))
    return [lines.get(f"{op.name}@{op.function}", "") for op in graph.ops]


def traces(context: Any, function: str) -> dict[str, Any]:
    """Op -> the stack it was made in, for a function that TensorFlow has registered; empty for any other."""
    return _traces(context.get_graph_debug_info(function)) if context.has_function(function) else {}


def _outermost(graph: Graph, stacks: dict[str, Any]) -> list[str]:
    """Per op, its line, for the ops that stand in no function."""
    lines = _lines(stacks)
    return ["" if op.function else lines.get(op.name, "") for op in graph.ops]


def _traces(debug_info: Any) -> dict[str, Any]:
    return LoadTracesFromDebugInfo(debug_info) if _frames(debug_info) <= MOST_FRAMES else {}


def _frames(debug_info: Any) -> int:
    """How many frames the traces have: any number of ops may share a long one."""
    shared = {number: len(trace.frame_id) for number, trace in debug_info.traces_by_id.items()}
    own = sum(len(trace.file_line_cols) + len(trace.frame_id) for trace in debug_info.traces.values())
    return own + sum(shared.get(number, 0) for number in debug_info.name_to_trace_id.values())


def _lines(stacks: dict[str, Any]) -> dict[str, str]:
    frames = {name: _users_frame(trace) for name, trace in stacks.items()}
    return {name: f"{frame.filename}:{frame.lineno}, in {frame.name}" for name, frame in frames.items() if frame}


def _users_frame(trace: Iterable[Any], *, past_mixdown: bool = False) -> Any:
    """The innermost frame of the user's own code, if it is inside the call by which mixdown had the function traced.

    With `past_mixdown` also outside: the user's line that made mixdown, such as a wrapped optimizer, add the op.
    """
    for frame in reversed(list(trace)):
        if frame.filename.startswith(_home("mixdown")):
            if not past_mixdown:
                return None
        elif not any(frame.filename.startswith(_home(library)) for library in LIBRARIES):
            return frame
    return None


@cache
def _home(package: str) -> tuple[str, ...]:
    """Where the files of a package lie."""
    found = find_spec(package)
    places = found.submodule_search_locations if found is not None else None
    return tuple(f"{Path(place)}/" for place in places or ())


def name_originals(error: Any, context: Any, originals: Mapping[str, str]) -> None:
    """Let an error name the user's functions, by which TensorFlow then finds the user's source lines.

    `originals` holds the names of registered copies, and of the functions that they are copies of.
    """
    message = error._message
    for registered in sorted(originals, key=len, reverse=True):  # one name may be a part of another
        message = message.replace(registered, originals[registered])
    message = _ADDED.sub("", message)
    if _UNKNOWN in message:
        functions = sorted(originals.values(), key=lambda name: name not in message)  # those in the message first
        message = _with_lines(message, [traces(context, name) for name in functions])
    error._message = message


def _with_lines(message: str, known: list[dict[str, Any]]) -> str:
    """Put in the source lines that the compiler did not know, written as it writes them."""

    def located(match: re.Match[str]) -> str:
        trace = next((found[match["node"]] for found in known if match["node"] in found), None)
        frames = [f'File "{frame.filename}", line {frame.lineno}, in {frame.name}' for frame in trace or ()]
        return match["before"] + (_UNKNOWN if trace is None else "\n".join(frames)) + match["after"]

    for place in _PLACES:
        message = place.sub(located, message)
    return message
