"""`mixdown.numerics.locate` and `locating`: the first op that made Inf or NaN of finite inputs.

`locate` finds it in one extra run of a step, `locating` watches a program until its numbers go bad for the first time.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf

from mixdown.core import Policy
from mixdown.numerics.location import Location, Range
from mixdown.rules.layer_names import layer_of
from mixdown.tensorflow.calls import active_policy
from mixdown.tensorflow.calls.call_hook import ObservedCall, observed
from mixdown.tensorflow.install import install
from mixdown.tensorflow.numerics.causes import find_cause, in_float32
from mixdown.tensorflow.numerics.probing.health import Capture, Health, PortValues
from mixdown.tensorflow.numerics.probing.probed_function import FLOATS, ProbedFunction
from mixdown.tensorflow.numerics.probing.runs import Run, chosen_policy, kept
from mixdown.tensorflow.numerics.probing.values import float_array
from mixdown.tensorflow.protos.wiring import node_name
from mixdown.tensorflow.runtime.private import context
from mixdown.tensorflow.runtime.source_lines import of_op


def locate(step_fn: Callable[..., Any], *args: Any, policy: Policy | None = None) -> Location | None:
    """Run a step once more, with probes, and name the first op that made Inf or NaN of finite inputs.

    The step runs as the policy has it, except that XLA compiles nothing and graph optimizers are off. Variables are bit
    for bit as before afterwards; what a dataset iterator hands out is gone, so pass the batch itself.

    Args:
        step_fn: a tf.function, or any function that calls some: a training step, `model.train_on_batch`.
        args: what to call it with.
        policy: what may run in 16 bits, and where; by default the policy in force, or else the default policy.

    Returns:
        The op, None if everything stayed finite.

    Raises:
        MixdownError: the step calls no tf.function that could be probed.
    """
    policy, full = chosen_policy(policy)
    health = Health()
    with kept(), Run(health, policy, full=full) as run:
        try:
            run(step_fn, *args)
        except tf.errors.OpError:
            if find_cause(health.executions).first is None:
                raise
        return _located(health)


@contextmanager
def locating(report: Callable[[Location], object] | None = None) -> Iterator[list[Location]]:
    """Run what this thread calls inside the block with probes, until an op makes Inf or NaN of finite inputs.

    Unlike `locate`, nothing runs twice and nothing is put back: this is the run itself, slower up to the first find,
    and at full speed from then on. Only calls for which a policy is in force are probed.

    Args:
        report: called with the find.

    Yields:
        A list that holds the find once there is one.
    """
    found: list[Location] = []
    runs: dict[Policy, tuple[Health, Run]] = {}
    install()
    with ExitStack() as stack:

        def observer(call: ObservedCall) -> Any:
            policy = active_policy.current_policy()
            if found or policy is None:
                return call.unobserved()
            if policy not in runs:
                health = Health()
                runs[policy] = health, stack.enter_context(Run(health, policy, full=False, lenient=False))
            health, run = runs[policy]
            try:
                return run.call(call)
            finally:
                location = _located(health)
                health.forget()
                if location:
                    found.append(location)
                    if report is not None:
                        report(location)

        with observed(observer):
            yield found


def _located(health: Health) -> Location | None:
    """The op that caused what the probes saw."""
    found = find_cause(health.executions)
    if found.first is None:
        return None
    function, name = found.first.execution.function, found.first.node
    cast = node_name(function.inputs[name][0].text) if name in function.inserted else ""
    readers = function.readers.get(function.outputs[name][0].text) if cast else None
    op = readers[0] if readers else function.by_name.get(name)  # of a cast, the op that reads it
    shown = name if op is None else op.name
    location = Location(
        op=shown,
        kind="argument" if op is None else op.op,
        function=function.original,
        dtype=_float_dtype(function, name),
        layer=layer_of(shown, function.outputs),
        source=of_op(context(), function.original, shown),
        cast=cast,
        came_in=found.came_in,
        others=found.others,
    )
    if found.came_in:
        return location
    captures = [each for each in health.captures if each.function is function and each.node == name]
    capture = next((each for each in captures if all(_is_finite(value) for _, value in each.inputs)), None)
    return replace(
        location,
        inputs=_ranges(function, capture.inputs) if capture else (),
        outputs=_ranges(function, capture.outputs) if capture else (),
        float32=False if cast else _overflows_in_float32(function.by_name[name], capture),
        iteration=found.first.execution.ordinal,
    )


def _overflows_in_float32(node: Any, capture: Capture | None) -> bool | None:
    """Whether the op would have made Inf or NaN in float32 too; None if that cannot be found out."""
    if capture is None:
        return None
    outputs = in_float32(node, [value for _, value in capture.inputs], capture.function.library)
    return None if outputs is None else not all(map(_is_finite, outputs))


def _float_dtype(function: ProbedFunction, name: str) -> str:
    """The dtype of a node's first float output, or of an argument."""
    ports = function.outputs.get(name) or [port for port in function.arguments if port.text == name]
    return tf.as_dtype(next(port.dtype for port in ports if port.dtype in FLOATS)).name


def _is_finite(value: Any) -> bool:
    numbers = float_array(value)
    return numbers is None or bool(np.isfinite(numbers).all())


def _ranges(function: ProbedFunction, values: PortValues) -> tuple[Range, ...]:
    """The ranges of values, under the user's ops that made them: for a cast of the plan, the op that it casts."""
    names = [node_name(port.text) for port, _ in values]
    own = [node_name(function.inputs[name][0].text) if name in function.inserted else name for name in names]
    return tuple(_range(name, value) for name, (_, value) in zip(own, values, strict=True))


def _range(name: str, value: Any) -> Range:
    array, floats = np.asarray(value), float_array(value)
    numbers, dtype = array if floats is None else floats, tf.as_dtype(array.dtype).name
    if numbers.dtype.kind not in "fiu":
        return Range(name, dtype, numbers.shape, None, None)
    finite = numbers[np.isfinite(numbers)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (None, None)
    return Range(name, dtype, numbers.shape, low, high, int(np.isinf(numbers).sum()), int(np.isnan(numbers).sum()))
