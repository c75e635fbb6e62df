"""From what the probes saw in a run to the op that caused the first Inf or NaN. Start with `find_cause`.

An op is a cause in an execution if one of its outputs was not finite and all its inputs were. Causes are ordered as
the program is: by the call of the step, by the place of nested calls, by iteration, by place in the function. The first
one is reported from which non-finite values reach a result: an infinite mask that a softmax takes away again is only
listed among the others.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import types_pb2

from mixdown.tensorflow.calls import active_policy
from mixdown.tensorflow.numerics.probing.health import Execution
from mixdown.tensorflow.numerics.probing.probed_function import inputs_of

RAISED = {types_pb2.DT_HALF: types_pb2.DT_FLOAT, types_pb2.DT_BFLOAT16: types_pb2.DT_FLOAT}


class Cause(NamedTuple):
    """A node in an execution of its function, or an argument of the function, in place of a node."""

    execution: Execution
    node: str


class Findings(NamedTuple):
    """The cause to report, if there is one."""

    first: Cause | None
    came_in: bool  # no op made it
    others: tuple[str, ...]


def find_cause(executions: Sequence[Execution]) -> Findings:
    """The cause to report, and the other ones; if no op is a cause, the value that came in non-finite and spread."""
    counts = Counter((each.call, each.function.number) for each in executions)
    order = partial(_place, counts)
    causes = sorted((cause for each in executions for cause in _made(each)), key=order)
    if causes:
        first = next((cause for cause in causes if _spreads(cause)), causes[0])
        names = dict.fromkeys(cause.node for cause in causes)
        return Findings(first, came_in=False, others=tuple(name for name in names if name != first.node))
    sources = sorted((source for each in executions for source in _came_in(each)), key=order)
    spreading = next((source for source in sources if _spreads(source)), None)
    return Findings(spreading, came_in=spreading is not None, others=())


def _made(execution: Execution) -> Iterator[Cause]:
    function, bad = execution.function, execution.bad
    for node in function.live if bad else ():
        bad_output = any(port.text in bad for port in function.outputs[node.name])
        bad_input = any(port.text in bad for port in function.inputs[node.name])
        if bad_output and not bad_input and function.computes(node):
            yield Cause(execution, node.name)


def _came_in(execution: Execution) -> Iterator[Cause]:
    """Values that were not finite before any op of the step read them."""
    function, bad = execution.function, execution.bad
    if function.number == 0:
        yield from (Cause(execution, port.text) for port in function.arguments if port.text in bad)
    for node in function.live:
        from_elsewhere = function.has_hidden_inputs(node) and not function.is_call(node)
        if from_elsewhere and any(port.text in bad for port in function.outputs[node.name]):
            yield Cause(execution, node.name)


def _spreads(cause: Cause) -> bool:
    """Whether a chain of non-finite tensors leads from a cause to a result, an effect or a call."""
    function, bad = cause.execution.function, cause.execution.bad
    results = {port.text for port in function.results}
    reached, queue = {cause.node}, [cause.node]
    for name in queue:
        made = [port.text for port in function.outputs.get(name, ())] or [name]
        for text in (text for text in made if text in bad):
            if text in results:
                return True
            for node in function.readers.get(text, ()):
                if function.is_call(node) or function.has_effects(node):
                    return True
                if node.name not in reached:
                    reached.add(node.name)
                    queue.append(node.name)
    return False


def _place(counts: Counter[tuple[int, int]], cause: Cause) -> tuple[int, ...]:
    """When a cause happened, as far as the records show it, of which there are so many per call and function.

    That is its call, then from the outside in: iteration and place of each function on the way, down to the node.
    """
    execution, node = cause
    number, ordinal = execution.function.number, execution.ordinal
    path: list[int] = []
    while True:
        path[:0] = [ordinal, execution.tree.functions[number].order.get(node, -1)]
        caller = execution.tree.callers.get(number)
        if number == 0 or caller is None:
            return (execution.call, *path)
        # Executions of a function are spread evenly over those of its caller, which is so for equal iterations.
        runs, outer = counts[execution.call, number], counts.get((execution.call, caller[0]), 1)
        (number, node), ordinal = caller, ordinal * outer // runs


def in_float32(node: Any, values: Sequence[Any], library: Mapping[str, Any]) -> list[Any] | None:
    """What a node makes of these inputs if all its 16-bit types are float32; None if it cannot be run alone."""
    raised = deepcopy(node)
    for value in raised.attr.values():
        match value.WhichOneof("value"):
            case "type":
                value.type = RAISED.get(value.type, value.type)
            case "list":
                value.list.type[:] = [RAISED.get(dtype, dtype) for dtype in value.list.type]
    low = (np.float16, tf.bfloat16.as_numpy_dtype)
    raised_values = (value.astype(np.float32) if value.dtype in low else value for value in values)
    feeds = {f"input_{index}:0": value for index, value in enumerate(raised_values)}
    try:
        with active_policy.scope(None), tf.Graph().as_default() as graph:
            tf.import_graph_def(_alone(raised, library), name="")
            op = graph.get_operation_by_name(node.name)
            with tf.compat.v1.Session(graph=graph) as session:
                return list(session.run(list(op.outputs), feeds))
    except (tf.errors.OpError, ValueError):
        return None


def _alone(node: Any, library: Mapping[str, Any]) -> Any:
    """A graph of placeholders and one node, without its device and what refers to other nodes."""
    graph_def = tf.compat.v1.GraphDef()
    for index, port in enumerate(inputs_of(node, library)):
        graph_def.node.add(name=f"input_{index}", op="Placeholder").attr["dtype"].type = port.dtype
    node.device = ""
    node.input[:] = [placeholder.name for placeholder in graph_def.node]
    for attribute in [name for name in node.attr if name.startswith("_")]:
        del node.attr[attribute]
    graph_def.node.append(node)
    return graph_def
