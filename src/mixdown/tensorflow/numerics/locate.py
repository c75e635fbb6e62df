"""`mixdown.numerics.locate`: the first op that made Inf or NaN of finite inputs, found in one extra run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from mixdown.numerics.location import Location, Range
from mixdown.rules.op_names import layer_of
from mixdown.tensorflow.numerics.culprits import Culprit, Findings, findings, float_dtype, readers_of
from mixdown.tensorflow.numerics.probing.health import Capture, Health
from mixdown.tensorflow.numerics.probing.ports import FLOATS, OPAQUE, maker
from mixdown.tensorflow.numerics.probing.runs import Run
from mixdown.tensorflow.numerics.probing.state import kept
from mixdown.tensorflow.numerics.replay import in_float32
from mixdown.tensorflow.numerics.setting import policy_for
from mixdown.tensorflow.numerics.sources import source_of
from mixdown.tensorflow.runtime.private import context

if TYPE_CHECKING:
    from collections.abc import Callable

    from mixdown.core import Policy
    from mixdown.tensorflow.numerics.probing.ports import Port
    from mixdown.tensorflow.numerics.probing.probed_function import Sheet


def locate(step_fn: Callable[..., Any], *args: Any, policy: Policy | None = None) -> Location | None:
    """Run a step once more, with probes, and name the first op that made Inf or NaN of finite inputs.

    The step runs as the policy has it, except that XLA compiles nothing and graph optimizers rest. Variables are bit
    for bit as before afterwards; what a dataset iterator hands out is gone, so pass the batch itself.

    Args:
        step_fn: a tf.function, or any function that calls some: a training step, `model.train_on_batch`.
        args: what to call it with.
        policy: what may be low, and where; by default the policy in force, or else the default policy.

    Returns:
        The op, None if everything stayed finite.

    Raises:
        MixdownError: the step calls no tf.function that could be probed.
    """
    policy, full = policy_for(policy)
    health = Health()
    with kept(), Run(health, policy, full=full) as run:
        try:
            run(step_fn, *args)
        except tf.errors.OpError:
            if findings(health.executions).first is None:
                raise
        return located(health)


def located(health: Health) -> Location | None:
    """The op to blame for what the probes saw."""
    found = findings(health.executions)
    if found.first is None:
        return None
    return _came_in(found.first) if found.came_in else _made(found, found.first, health.captures)


def _made(found: Findings, culprit: Culprit, captures: list[Capture]) -> Location:
    sheet, node = culprit.sheet, culprit.node
    capture = next((each for each in captures if _is_of(each, culprit)), None)
    cast = maker(sheet.inputs[node][0].text) if node in sheet.inserted else ""
    blamed = readers_of(sheet, node)[0] if cast else _node(culprit)
    inputs = [port for port in sheet.inputs[node] if port.dtype not in OPAQUE]
    outputs = [port for port in sheet.outputs[node] if port.text in sheet.read and port.dtype in FLOATS]
    return Location(
        op=blamed.name,
        kind=blamed.op,
        function=sheet.original,
        dtype=tf.as_dtype(float_dtype(sheet, node)).name,
        inputs=()
        if capture is None
        else tuple(_range(_named(sheet, p), v) for p, v in zip(inputs, capture.inputs, strict=True)),
        outputs=()
        if capture is None
        else tuple(_range(_named(sheet, p), v) for p, v in zip(outputs, capture.outputs, strict=True)),
        layer=layer_of(blamed.name, sheet.outputs),
        source=source_of(context(), sheet.original, blamed.name),
        float32=False if cast else _overflows_in_float32(culprit, capture),
        cast=cast,
        iteration=culprit.execution.ordinal,
        others=found.others,
    )


def _came_in(culprit: Culprit) -> Location:
    sheet = culprit.sheet
    kind = _node(culprit).op if culprit.node in sheet.outputs else "argument"
    return Location(
        op=culprit.node,
        kind=kind,
        function=sheet.original,
        dtype=tf.as_dtype(float_dtype(sheet, culprit.node)).name,
        layer=layer_of(culprit.node),
        source=source_of(context(), sheet.original, culprit.node),
        came_in=True,
    )


def _node(culprit: Culprit) -> Any:
    return next(node for node in culprit.sheet.nodes if node.name == culprit.node)


def _named(sheet: Sheet, port: Port) -> str:
    """The user's op behind a tensor: of a cast that the plan put in, what it casts."""
    name = maker(port.text)
    return maker(sheet.inputs[name][0].text) if name in sheet.inserted else name


def _is_of(capture: Capture, culprit: Culprit) -> bool:
    """Whether a capture shows a culprit making non-finite values of finite ones."""
    same = capture.tree is culprit.execution.tree and capture.sheet == culprit.execution.sheet
    return same and capture.node == culprit.node and all(_is_finite(value) for value in capture.inputs)


def _overflows_in_float32(culprit: Culprit, capture: Capture | None) -> bool | None:
    outputs = capture and in_float32(_node(culprit), capture.inputs, culprit.sheet.library)
    return None if outputs is None else not all(_is_finite(value) for value in outputs)


def _is_finite(value: Any) -> bool:
    wide = _wide(value)
    return wide is None or bool(np.isfinite(wide).all())


def _range(name: str, value: Any) -> Range:
    wide = _wide(value)
    numbers = np.asarray(value) if wide is None else wide
    dtype = tf.as_dtype(numbers.dtype if wide is None else value.dtype).name
    if wide is None and numbers.dtype.kind not in "iu":
        return Range(name, dtype, numbers.shape, None, None)
    finite = numbers[np.isfinite(numbers)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (None, None)
    return Range(name, dtype, numbers.shape, low, high, int(np.isinf(numbers).sum()), int(np.isnan(numbers).sum()))


def _wide(value: Any) -> Any:
    """A float array in a width that NumPy computes in; None if the values are no floats."""
    value = np.asarray(value)
    if value.dtype == tf.bfloat16.as_numpy_dtype:
        return value.astype(np.float32)
    return value if value.dtype.kind == "f" else None
