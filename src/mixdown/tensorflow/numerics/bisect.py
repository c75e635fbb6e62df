"""`mixdown.bisect`: the smallest set of ops to keep in float32 so that results are close enough."""

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Any

from mixdown.core import Category, Paint, Policy, Role
from mixdown.core.override import Override
from mixdown.errors import MixdownError
from mixdown.numerics.calibrated import Repair, Verdict, smallest_kept
from mixdown.numerics.comparison import errors_between
from mixdown.tensorflow.numerics.calibrate import as_arguments, rule_for
from mixdown.tensorflow.numerics.compare import outputs
from mixdown.tensorflow.numerics.probing.runs import Run, chosen_policy, kept
from mixdown.tensorflow.numerics.probing.trees import ProbedTree
from mixdown.tensorflow.numerics.probing.values import Values

Unit = tuple[str, str]
"""An op by kind and name: what a rule of a policy can name."""


def bisect(fn: Callable[..., Any], batches: Iterable[Any], tolerance: float, *, policy: Policy | None = None) -> Repair:
    """Find the fewest ops to keep in float32 so that results stay within a tolerance, and print the policy.

    Results are what `fn` returns, and the gradients that leave the backward pass on the way to an optimizer. The error
    of each is the length of the difference relative to the length of the float32 values. Variables are as before
    afterwards.

    Args:
        fn: a tf.function, or any function that calls some, such as a training step.
        batches: what to call it with: a tuple of arguments each, or one argument.
        tolerance: the largest relative error to accept.
        policy: where to start; by default the policy in force, or else the default policy.

    Returns:
        The policy, the ops it keeps, and how many runs it took: one in float32 to compare with, and at most
        2 * k * ceil(log2(n)) + 1 mixed ones to find k of n ops.

    Raises:
        MixdownError: there is no batch, the tolerance is not positive, or nothing could be probed.
    """
    policy, gate = chosen_policy(policy)
    rows = as_arguments(batches, "bisect")
    if not tolerance > 0:
        raise MixdownError(f"bisect needs a tolerance above 0, got {tolerance}.")
    with kept() as restore:
        bench = _Bench(fn, rows, policy, restore)
        found, runs = smallest_kept([] if gate else bench.units, lambda keep: bench.error(keep) <= tolerance)
        error = 0.0 if gate else bench.error(frozenset(found))
    rules = tuple(rule_for(kind, name, Verdict.KEEP) for kind, name in found)
    repaired = replace(policy, overrides=(*policy.overrides, *rules))
    repair = Repair(repaired, tuple(found), runs + 1, tolerance, error)
    print(repair)  # noqa: T201 - the policy to paste is what the caller asked for
    return repair


class _Bench:
    """The float32 results to compare with, and the error of the mixed ones for any set of ops kept."""

    def __init__(
        self, fn: Callable[..., Any], rows: list[tuple[Any, ...]], policy: Policy, restore: Callable[[], None]
    ) -> None:
        self._fn, self._rows, self._policy, self._restore = fn, rows, policy, restore
        self._errors: dict[frozenset[Unit], float] = {}
        self._expected, values = self._run(policy, full=True)
        self._gradients = values.found
        self.units = _units(values.trees)

    def error(self, keep: frozenset[Unit]) -> float:
        """The largest relative error of an output or a gradient, on any batch, if these ops are kept."""
        if len(keep) == len(self.units):
            return 0.0
        if keep not in self._errors:
            results, values = self._run(_keeping(self._policy, keep), full=False)
            pairs = zip(self._expected, results, strict=True)
            errors = [each.errors.relative for one, other in pairs for each in outputs(one, other)]
            errors += [errors_between(self._gradients.get(k, []), v).relative for k, v in values.found.items()]
            self._errors[keep] = max(errors, default=0.0)
        return self._errors[keep]

    def _run(self, policy: Policy, *, full: bool) -> tuple[list[Any], Values]:
        values = Values(lambda _, final: final)
        results = []
        with Run(values, policy, full=full) as probed:
            for row in self._rows:
                self._restore()
                results.append(probed(self._fn, *row))
        return results, values


def _units(trees: list[ProbedTree]) -> list[Unit]:
    """The ops that run in 16 bits and compute, in the order of the program."""
    out: dict[Unit, None] = {}
    for tree in trees:
        functions = {function.original: function for function in tree.functions}
        graph = tree.plan.graph
        low = [
            op
            for op in graph.ops
            if any(tree.plan.paints[site] is Paint.LOW for site in op.sites)
            and all(graph.sites[site].role is Role.PLAIN for site in op.sites)
        ]
        low.sort(key=lambda op: (functions[op.function].number, functions[op.function].order[op.name]))
        out.update(((op.kind, op.name), None) for op in low)
    return list(out)


def _keeping(policy: Policy, keep: Collection[Unit]) -> Policy:
    """The policy with these ops kept, by one rule a kind: a rule for each of thousands would be slow to match."""
    names: dict[str, list[str]] = {}
    for kind, name in sorted(keep):
        names.setdefault(kind, []).append(re.escape(name))
    rules = [Override(Category.BARRIER, kind, f"^(?:{'|'.join(each)})$") for kind, each in names.items()]
    return replace(policy, overrides=(*policy.overrides, *rules))
