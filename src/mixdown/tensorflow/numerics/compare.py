"""`mixdown.numerics.compare`: float32 and mixed side by side, from the same state and seeds."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from mixdown.core import Plan, Policy
from mixdown.numerics.comparison import Compared, Comparison, Errors, errors_between
from mixdown.tensorflow.numerics.probing.probed_function import Key
from mixdown.tensorflow.numerics.probing.runs import Run, chosen_policy, kept
from mixdown.tensorflow.numerics.probing.values import Values, float_array


def compare(fn: Callable[..., Any], *args: Any, policy: Policy | None = None, only: str = "") -> Comparison:
    """Run a function in float32 and as the policy has it, and compare what it makes on the way.

    Both runs start from the same variables. Random ops draw the same numbers in both: those that keep their state in a
    variable because it is put back, others because both runs start them anew. That does not hold for eager ops between
    functions. The values of the float32 run are held in memory until the other has made the same.

    Args:
        fn: a tf.function, or any function that calls some.
        args: what to call it with.
        policy: what may run in 16 bits; by default the policy in force, or else the default policy.
        only: a regular expression that the names of the ops to compare must contain.

    Returns:
        The error of every op that both runs make, those that add most first: print it, or ask for one by name.

    Raises:
        MixdownError: the function calls no tf.function that could be probed.
    """
    policy, gate = chosen_policy(policy)
    wanted = re.compile(only)

    def run(*, in_float32: bool) -> tuple[Any, Values]:
        values = Values(lambda key, _: wanted.search(key.op) is not None)
        with Run(values, policy, full=in_float32) as probed:
            return probed(fn, *args), values

    with kept() as restore:
        expected, full = run(in_float32=True)
        restore()
        got, mixed = run(in_float32=gate)
    errors = {key: errors_between(full.found.get(key, []), found) for key, found in mixed.found.items()}
    added = {key: extra for tree in mixed.trees for key, extra in _added(errors, tree.plan).items()}
    rows = [
        Compared(*key, mixed.dtypes[key], error, added.get(key, 0.0), key in mixed.final)
        for key, error in errors.items()
    ]
    rows.sort(key=lambda row: (-row.added, -row.errors.relative, row.name))
    return Comparison(tuple(rows), outputs(expected, got))


def _added(errors: Mapping[Key, Errors], plan: Plan) -> dict[Key, float]:
    """Per tensor, its relative error beyond the largest among what its op reads; an op that reads none adds none."""
    graph = plan.graph
    position = {(op.function, op.name): index for index, op in enumerate(graph.ops)}
    known = {key: position[key.function, key.op] for key in errors if (key.function, key.op) in position}
    measured: dict[int, float] = {}
    for key, index in known.items():
        measured[index] = max(measured.get(index, 0.0), errors[key].relative)
    out = {}
    for key, index in known.items():
        if any(graph.predecessors[site] for site in graph.ops[index].sites):
            own, read = errors[key].relative, _read(index, measured, plan)
            out[key] = own - read if own > read else 0.0
    return out


def _read(op: int, measured: Mapping[int, float], plan: Plan) -> float:
    """The largest error among what an op reads; values that only pass through a signature are followed back."""
    graph = plan.graph
    queue, seen, worst = list(graph.ops[op].sites), {op}, 0.0
    for site in queue:
        for before in graph.predecessors[site]:
            source = graph.sites[before].op
            if source in seen:
                continue
            seen.add(source)
            if source in measured:
                worst = max(worst, measured[source])
            else:
                queue.extend(graph.ops[source].sites)
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
    parts = tf.nest.flatten(value, expand_composites=True)
    kinds = (tf.Tensor, tf.Variable, np.ndarray, float)
    return [float_array(part) if isinstance(part, kinds) else None for part in parts]
