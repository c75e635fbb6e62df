"""A traced program, planned: `plan_program` reads it and plans, `Program.closed` is what JAX runs in its place."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from jax.extend.core import ClosedJaxpr
from jax.interpreters import partial_eval

from mixdown.core import Plan, Policy, make_plan
from mixdown.core.gc_pause import collector_paused
from mixdown.jax.reading.read import ProgramReading, read
from mixdown.jax.reading.state import has_product
from mixdown.jax.writing.write import written

DEFAULT = Policy(low="bfloat16", rules="jax", devices=("GPU", "TPU"))
"""The policy where none is given: bfloat16 needs no loss scaling, and CPUs are slower in it."""

ACCUMULATING_PLATFORMS = ("gpu", "cuda", "rocm", "tpu")
"""Where a product of 16-bit operands may yield float32. XLA's CPU compiler refuses some."""


@dataclass(frozen=True)
class Program:
    """A program with its plan."""

    original: Any  # the closed jaxpr that was traced
    reading: ProgramReading
    plan: Plan

    def closed(self, *, differentiable: bool) -> Any:
        """The closed jaxpr that runs by the plan; the original if the plan changes nothing."""
        if not self.plan.changes_anything:
            return self.original
        with collector_paused():
            return written(self.reading, self.plan, differentiable=differentiable)

    @cached_property
    def rewritten(self) -> Any:
        """The same, for whoever may take derivatives of it."""
        return self.closed(differentiable=True)


def plan_program(closed: Any, policy: Policy, platform: str) -> Program:
    """Read a program that was traced for a platform, and plan it."""
    with collector_paused():
        closed = without_dead_code(closed)
        reading = read(closed, accumulates=platform in ACCUMULATING_PLATFORMS)
        return Program(closed, reading, make_plan(reading.graph, policy))


def without_dead_code(closed: Any) -> Any:
    """A program without the equations that nothing depends on, which derivatives leave behind."""
    jaxpr, _ = partial_eval.dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars), instantiate=True)
    return ClosedJaxpr(jaxpr, closed.consts)


def has_products(jaxpr: Any) -> bool:
    """Whether a matrix product or convolution is anywhere in a jaxpr."""
    return any(has_product(equation) for equation in jaxpr.eqns)


def policy_for_jax(policy: Policy | None) -> Policy:
    """A policy with rules for JAX: the default if none is given."""
    if policy is None:
        return DEFAULT
    return policy if policy.rule_set.host == "JAX" else replace(policy, rules=DEFAULT.rules)


def takes_part(policy: Policy, platform: str) -> bool:
    """Whether a policy admits the devices of a platform."""
    kind = {"cuda": "GPU", "rocm": "GPU"}.get(platform, platform.upper())
    return policy.admits(kind)
