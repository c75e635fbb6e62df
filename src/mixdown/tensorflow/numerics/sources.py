"""The user's line that made an op, where TensorFlow remembers it."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mixdown.tensorflow.runtime.private import LoadTracesFromDebugInfo


def source_of(context: Any, function: str, node: str) -> str:
    """File, line and function of the user's innermost line behind a node, "" if it is not known."""
    if not context.has_function(function):
        return ""
    trace = LoadTracesFromDebugInfo(context.get_graph_debug_info(function)).get(node, ())
    own = [frame for frame in trace if not frame.filename.startswith(_libraries())]
    return f"{own[-1].filename}:{own[-1].lineno} in {own[-1].name}" if own else ""


@cache
def _libraries() -> tuple[str, ...]:
    """Where code lives that is not the user's."""
    found = [find_spec(name) for name in ("tensorflow", "keras", "tf_keras", "mixdown")]
    return tuple(f"{Path(spec.origin).parent}/" for spec in found if spec is not None and spec.origin)
