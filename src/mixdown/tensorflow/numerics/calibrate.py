"""`mixdown.calibrate`: a policy that fits the ranges of numbers on real batches. Start with `calibration`."""

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from mixdown.core import Category, Op, Paint, Plan, Policy, Role
from mixdown.core.override import Override
from mixdown.errors import MixdownError
from mixdown.numerics.calibrated import Calibration, Observed, Ruling, Verdict, is_safe, obstacle
from mixdown.numerics.scale import advise
from mixdown.rules.layer_names import is_backward
from mixdown.tensorflow.numerics.probing.counts import Counts
from mixdown.tensorflow.numerics.probing.probed_function import Key
from mixdown.tensorflow.numerics.probing.runs import chosen_policy
from mixdown.tensorflow.numerics.statistics import count
from mixdown.tensorflow.protos.bodies import reached

MOST_ROUNDS = 5
"""A new rule may let other ops run in 16 bits, which are then measured too; this often at most."""


def calibrate(fn: Callable[..., Any], batches: Iterable[Any], **options: Any) -> Policy:
    """The policy of `mixdown.numerics.calibration`, which takes the same arguments, without the numbers behind it.

    Returns:
        The policy that the calibration starts from, with rules for the ops whose numbers do not fit.
    """
    return calibration(fn, batches, **options).policy


def calibration(
    fn: Callable[..., Any],
    batches: Iterable[Any],
    *,
    policy: Policy | None = None,
    promote: bool = False,
    headroom: int = 1,
    loss_scale: float | None = None,
) -> Calibration:
    """Run a function in float32 on batches, and make rules of the ranges seen.

    An op is kept in float32 if numbers it reads or makes leave the range of the 16-bit dtype. If asked, an op between
    16-bit ones that only the rule set denies may run in 16 bits too, if all its numbers lie well within that range. An
    op that a rule of the given policy denies or keeps is never promoted. Variables are as before afterwards.

    Args:
        fn: a tf.function, or any function that calls some, such as a training step.
        batches: what to call it with: a tuple of arguments each, or one argument.
        policy: where to start; by default the policy in force, or else the default policy.
        promote: whether denied ops may run in 16 bits too.
        headroom: how many powers of two numbers must stay below the end of the range.
        loss_scale: the scale that training will use, for gradients; by default the one these gradients need.

    Returns:
        The policy, the ops that it keeps or promotes with the numbers behind each, and the loss scale that they need.

    Raises:
        MixdownError: there is no batch, or the function calls no tf.function that could be probed.
    """
    policy, _ = chosen_policy(policy)
    given, rows = policy, as_arguments(batches, "Calibration")
    rulings: list[Ruling] = []
    for _ in range(MOST_ROUNDS):
        counts = Counts(inner=True, denied=promote)
        count(counts, fn, rows, policy)
        judge = _Judge(counts, given, headroom, loss_scale)
        new = judge.rulings(promote=promote, decided={(each.kind, each.op) for each in rulings})
        rulings += new
        known = {override.selector for override in policy.overrides}  # what these name stays as it is
        rules = [rule_for(each.kind, each.op, each.verdict) for each in new]
        policy = replace(policy, overrides=(*policy.overrides, *(each for each in rules if each.selector not in known)))
        if not new:
            break
    return Calibration(policy, tuple(rulings), judge.scale)


def as_arguments(batches: Iterable[Any], tool: str) -> list[tuple[Any, ...]]:
    """The arguments of a call for every batch; an error in the name of a tool if there is none."""
    rows = [batch if isinstance(batch, tuple) else (batch,) for batch in batches]
    if not rows:
        raise MixdownError(f"{tool} needs at least one batch.")
    return rows


class _Judge:
    """Decides about ops by the tallies of the tensors that they read and make."""

    def __init__(self, counts: Counts, given: Policy, headroom: int, loss_scale: float | None) -> None:
        self._tallies, self._plans = counts.tallies, counts.plans
        self._given, self._headroom = given, headroom
        advice = advise(tally for key, tally in self._tallies.items() if is_backward(key.op))
        self.scale = loss_scale or (advice.fixed if advice else 1.0)

    def rulings(self, *, promote: bool, decided: set[tuple[str, str]]) -> list[Ruling]:
        """The ops that need a rule and have none yet."""
        out: dict[tuple[str, str], Ruling] = {}
        for plan in self._plans:
            promotable = _between_low_ops(plan) if promote else frozenset[int]()
            for op, tensors in self._ops(plan):
                ruling = self._ruling(plan, op, tensors, promotable)
                if ruling is not None and (op.kind, op.name) not in decided:
                    out.setdefault((op.kind, op.name), ruling)
        return list(out.values())

    def _ruling(self, plan: Plan, op: Op, tensors: list[Observed], promotable: frozenset[int]) -> Ruling | None:
        low = plan.policy.low
        if any(plan.paints[site] is Paint.LOW for site in op.sites):
            why = obstacle(tensors, low, self._headroom)
            return Ruling(op.name, op.kind, Verdict.KEEP, why) if why else None
        denied = promotable.issuperset(op.sites) and self._denied_by_the_lists(plan, op)
        if denied and is_safe(tensors, low, self._headroom):
            largest = max(each.largest for each in tensors)
            reason = f"its numbers stay below {largest:.3g}, and none of them becomes zero in {low}"
            return Ruling(op.name, op.kind, Verdict.PROMOTE, reason)
        return None

    def _denied_by_the_lists(self, plan: Plan, op: Op) -> bool:
        """Whether only the rule set denies an op: no rule of the user does, and it could run in 16 bits."""
        sites = [plan.graph.sites[site] for site in op.sites]
        full = (Category.DENY, Category.BARRIER)
        refused = any(
            o.category in full and o.matches(op.kind, op.name, plan.view.scopes) for o in self._given.overrides
        )
        able = op.frozen is None and all(site.legal and site.kernel for site in sites)
        return able and not refused and plan.policy.rule_set.categories.get(op.kind) is Category.DENY

    def _ops(self, plan: Plan) -> list[tuple[Op, list[Observed]]]:
        """Every op that computes, with what it reads and makes."""
        graph = plan.graph
        seen: list[list[Observed]] = [[] for _ in graph.ops]
        for tensor in graph.tensors:
            key = Key.of(graph, tensor)
            if key in self._tallies:
                factor = self.scale if is_backward(key.op) else 1.0
                observed = Observed(tensor.name, self._tallies[key], factor)
                for op in {graph.sites[site].op for site in (tensor.site, *tensor.consumers)}:
                    seen[op].append(observed)
        return [
            (op, tensors)
            for op, tensors in zip(graph.ops, seen, strict=True)
            if all(graph.sites[site].role is Role.PLAIN for site in op.sites)
        ]


def _between_low_ops(plan: Plan) -> frozenset[int]:
    """The sites that have an allow op before and after them: not a loss, nor the arithmetic of an optimizer."""
    allowed, graph = plan.view.sites_of(Category.ALLOW), plan.graph
    after, before = (reached(allowed, beside.__getitem__) for beside in (graph.successors, graph.predecessors))
    return frozenset(after).intersection(before)


def rule_for(kind: str, op: str, verdict: Verdict) -> Override:
    """The rule that a verdict on one op makes."""
    category = Category.BARRIER if verdict is Verdict.KEEP else Category.INFER
    return Override(category, kind, f"^{re.escape(op)}$")
