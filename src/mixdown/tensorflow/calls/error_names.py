"""Errors that twins raise, in the user's terms: the names of the original functions, and the user's source lines."""

import re
from collections.abc import Mapping
from typing import Any

from mixdown.tensorflow.runtime.source_lines import traces

_UNKNOWN = "dummy_file_name:10:dummy_function_name"
"""What XLA's compiler says of an op whose source lines it does not know: twins are registered without any."""

_PLACES = (
    re.compile(rf"(?P<before>{{{{node (?P<node>[^}}]+)}}}}\nThe op is created at: \n){_UNKNOWN}(?P<after>)"),
    re.compile(rf"(?P<before>Stack trace for op definition: \n){_UNKNOWN}(?P<after>\s+\[\[(?P<node>[^\]]+)\]\])"),
)
"""Where it says that, and of which op."""

_ADDED = re.compile(r"/(?:cast_\d+_to_b?float\d+|stored_\d+)")
"""What the names of a cast and of a barrier add to the name of the op whose value they are given."""


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
