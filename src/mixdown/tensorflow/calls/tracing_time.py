"""How long planning took beside tracing, in the log: `planning_time`.

TensorFlow counts the time in which it traces functions, without saying which. Programs trace a function and call it,
which plans it: the time counted since the plan before is the time of the function that is planned now. If nothing was
counted, the function was traced earlier, and nothing is said.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from mixdown.messages import logger
from mixdown.tensorflow.runtime.private import graph_building_time
from mixdown.untrusted.escaped import escaped

SHORT = 0.1
"""Seconds: planning that takes less is not worth a line."""

_counted = [0.0]  # the seconds of tracing that belong to functions planned before


@contextmanager
def planning_time(function: str) -> Iterator[None]:
    """Say in the log if what happens inside the block, the planning of a function, takes longer than its tracing."""
    start, tracing = perf_counter(), traced() - _counted[0]
    try:
        yield
    finally:
        planning, _counted[0] = perf_counter() - start, traced()
    if planning > SHORT and 0 < tracing < planning:
        logger().info(
            "function %s: planning took %.1f s, longer than tracing (%.1f s)", escaped(function), planning, tracing
        )


def traced() -> float:
    """The seconds in which TensorFlow has traced functions in this process."""
    return float(graph_building_time.get_cell().value()) / 1e6
