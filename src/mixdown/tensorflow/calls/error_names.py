"""Errors of twins, told in the user's terms: the names of the original functions, and the user's source lines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from mixdown.tensorflow.runtime.private import LoadTracesFromDebugInfo

if TYPE_CHECKING:
    from mixdown.tensorflow.calls.twins import Twin

_NOWHERE = "dummy_file_name:10:dummy_function_name"
"""What XLA's compiler says of an op whose source lines it does not know: twins are registered without any."""

_PLACES = (
    re.compile(rf"(?P<before>{{{{node (?P<node>[^}}]+)}}}}\nThe op is created at: \n){_NOWHERE}(?P<after>)"),
    re.compile(rf"(?P<before>Stack trace for op definition: \n){_NOWHERE}(?P<after>\s+\[\[(?P<node>[^\]]+)\]\])"),
)
"""Where it says that, and of which op."""


_CAST = re.compile(r"/cast_\d+_to_b?float\d+")
"""What the name of a cast adds to the name of the op whose value it converts."""


def name_originals(error: Any, context: Any, twin: Twin) -> None:
    """Let an error speak of the user's functions: TensorFlow then finds the user's source lines by these names."""
    message = error._message
    for registered in sorted(twin.originals, key=len, reverse=True):  # one name may be a part of another
        message = message.replace(registered, twin.originals[registered])
    message = _CAST.sub("", message)
    error._message = _locate(message, context, twin) if _NOWHERE in message else message


def _locate(message: str, context: Any, twin: Twin) -> str:
    """Put in the source lines that the compiler did not know."""
    functions = sorted(twin.originals.values(), key=lambda name: name not in message)  # those it speaks of first
    infos = [context.get_graph_debug_info(name) for name in functions if context.has_function(name)]
    traces = [LoadTracesFromDebugInfo(info) for info in infos]

    def located(match: re.Match[str]) -> str:
        trace = next((known[match["node"]] for known in traces if match["node"] in known), None)
        return match["before"] + (_NOWHERE if trace is None else _lines(trace)) + match["after"]

    for place in _PLACES:
        message = place.sub(located, message)
    return message


def _lines(trace: Any) -> str:
    """A stack, written as XLA's compiler writes it."""
    return "\n".join(f'File "{frame.filename}", line {frame.lineno}, in {frame.name}' for frame in trace)
