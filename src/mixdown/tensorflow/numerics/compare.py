"""`mixdown.numerics.compare`: float32 and mixed side by side, from the same state and seeds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from mixdown.numerics.comparison import Compared, Comparison, Errors
from mixdown.tensorflow.numerics.errors import errors_between
from mixdown.tensorflow.numerics.probing.runs import Run
from mixdown.tensorflow.numerics.probing.state import kept
from mixdown.tensorflow.numerics.probing.values import Values
from mixdown.tensorflow.numerics.setting import policy_for

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mixdown.core import Plan, Policy
    from mixdown.tensorflow.numerics.probing.counts import Key


def compare(fn: Callable[..., Any], *args: Any, policy: Policy | None = None, only: str = "") -> Comparison:
    """Run a function in float32 and as the policy has it, and compare what it makes on the way.

    Both runs start from the same variables. Random ops draw the same numbers in both: those that keep their state in a
    variable because it is put back, others because both runs start them anew. Eager ops between functions are not
    covered by that. The values of the float32 run are held in memory until the other has made the same.

    Args:
        fn: a tf.function, or any function that calls some.
        args: what to call it with.
        policy: what may be low; by default the policy in force, or else the default policy.
        only: a regular expression that the names of the ops to compare must contain.

    Raises:
        MixdownError: the function calls no tf.function that could be probed.
    """
    policy, gate = policy_for(policy)
    wanted = re.compile(only)
    full: dict[Key, list[Any]] = {}
    mixed: dict[Key, list[Any]] = {}

    def run(into: dict[Key, list[Any]], *, in_float32: bool) -> tuple[Any, Values]:
        values = Values(
            lambda key, _: wanted.search(key.op) is not None, lambda key, v: into.setdefault(key, []).append(v)
        )
        with Run(values, policy, full=in_float32) as probed:
            return probed(fn, *args), values

    with kept() as restore:
        expected, _ = run(full, in_float32=True)
        restore()
        got, values = run(mixed, in_float32=gate)
    errors = {key: errors_between(full.get(key, []), mixed[key]) for key in mixed}
    return Comparison(_ranked(errors, values), outputs(expected, got))


def _ranked(errors: Mapping[Key, Errors], values: Values) -> tuple[Compared, ...]:
    added = {key: extra for plan in values.plans for key, extra in _added(errors, plan).items()}
    rows = [
        Compared(*key, values.dtypes[key], error, added.get(key, 0.0), key in values.final)
        for key, error in errors.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.added, -row.errors.relative, row.name)))


def _added(errors: Mapping[Key, Errors], plan: Plan) -> dict[Key, float]:
    """Per tensor, its relative error beyond the largest among what its op reads; an op that reads none adds none."""
    graph = plan.graph
    of_op: dict[tuple[str, str], float] = {}
    for key, error in errors.items():
        where = (key.function, key.op)
        of_op[where] = max(of_op.get(where, 0.0), error.relative)
    measured = [of_op.get((op.function, op.name)) for op in graph.ops]
    position = {(op.function, op.name): index for index, op in enumerate(graph.ops)}
    out = {}
    for key, error in errors.items():
        index = position.get((key.function, key.op))
        if index is not None and any(graph.predecessors[site] for site in graph.ops[index].sites):
            read = _read(index, measured, plan)
            out[key] = error.relative - read if error.relative > read else 0.0
    return out


def _read(op: int, measured: list[float | None], plan: Plan) -> float:
    """The largest error among what an op reads; values that only pass through a signature are followed back."""
    graph = plan.graph
    queue, seen, worst = list(graph.ops[op].sites), {op}, 0.0
    for site in queue:
        for before in graph.predecessors[site]:
            source = graph.sites[before].op
            if source in seen:
                continue
            seen.add(source)
            error = measured[source]
            if error is None:
                queue.extend(graph.ops[source].sites)
            else:
                worst = max(worst, error)
    return worst


def outputs(expected: Any, got: Any) -> tuple[Compared, ...]:
    """What a function returned in two runs, compared part by part; parts that are no floats are left out."""
    parts = zip(_flat(expected), _flat(got), strict=True)
    return tuple(
        Compared("output", type(one).__name__, index, "", str(other.dtype), errors_between([one], [other]))
        for index, (one, other) in enumerate(parts)
        if one is not None and other is not None
    )


def _flat(value: Any) -> list[Any]:
    return [_array(part) for part in tf.nest.flatten(value, expand_composites=True)]


def _array(part: Any) -> Any:
    array = np.asarray(part) if isinstance(part, tf.Tensor | tf.Variable | np.ndarray | float) else None
    if array is None:
        return None
    wide = array.astype(np.float32) if array.dtype == tf.bfloat16.as_numpy_dtype else array
    return wide if wide.dtype.kind == "f" else None
