"""The law of meeting, on random programs: readers of one value whose results meet again in a float32 op agree.

Whatever the cut chose: it is asked here of finished plans, with a search of our own.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from mixdown import Policy
from mixdown.core import Category, Paint, Plan, Role
from mixdown.jax.programs import plan_program

N = 8
ONE: list[Callable[[Any], Any]] = [
    jnp.tanh,
    jnp.exp,
    jnp.log1p,
    jnp.cos,  # on no list
    jax.nn.relu,
    jax.nn.log_softmax,
    jnp.transpose,
    lambda x: x - x.max(-1, keepdims=True),
    lambda x: jnp.broadcast_to(x.sum(0), (N, N)),
    lambda x: x[jnp.arange(N)[::-1]],
    lambda x: x * 0.5,
    jnp.square,
]
TWO: list[Callable[[Any, Any], Any]] = [jnp.add, jnp.subtract, jnp.multiply, jnp.maximum, jnp.matmul, jnp.matmul]


def program(seed: int) -> Callable[[Any, Any], Any]:
    """A random function of weights and inputs, with a derivative or without."""

    def value(w: Any, x: Any) -> Any:
        random = Random(seed)  # noqa: S311 - a test
        values = [x @ w, x]
        for _ in range(random.randint(4, 14)):
            if random.random() < 0.6:
                values.append(random.choice(ONE)(random.choice(values[-4:])))
            else:
                values.append(random.choice(TWO)(random.choice(values[-4:]), random.choice(values)))
        return jnp.mean(values[-1] - random.choice(values))

    return jax.value_and_grad(value) if seed % 3 else value


def faults(plan: Plan) -> list[str]:
    """Values that a 16-bit and a float32 op read whose results meet again."""
    graph, paints, categories = plan.graph, plan.paints, plan.view.categories

    def passes(site: int) -> bool:
        return categories[site] is not Category.ALLOW and graph.sites[site].role in (Role.PLAIN, Role.DERIVATIVE)

    def reached(site: int, *, full_only: bool) -> set[int]:
        found, queue = {site}, [site]
        while queue:
            here = queue.pop()
            for after in set(graph.successors[here]) - found:
                same_pass = not (graph.sites[after].role is Role.DERIVATIVE and graph.sites[here].role is Role.PLAIN)
                if passes(after) and same_pass and (paints[after] is Paint.FULL or not full_only):
                    found.add(after)
                    queue.append(after)
        return found

    out = []
    for tensor in graph.tensors:
        if graph.sites[tensor.site].role is Role.VARIABLE_READ:
            continue
        readers = [site for site in set(tensor.consumers) if passes(site)]
        full = [site for site in readers if paints[site] is Paint.FULL]
        beyond: set[int] = set().union(*(reached(site, full_only=True) for site in full))
        for site in readers:
            if paints[site] is Paint.LOW:
                meetings = [s for s in reached(site, full_only=False) & beyond if paints[s] is Paint.FULL]
                out += [f"{tensor.name}: {graph.label(site)} meets {graph.label(s)}" for s in meetings]
    return out


def planned(seed: int, low: str, platform: str) -> Plan:
    shape = jax.ShapeDtypeStruct((N, N), jnp.float32)
    policy = Policy(rules="jax", low=low, devices="all")
    return plan_program(jax.make_jaxpr(program(seed))(shape, shape), policy, platform).plan


@pytest.mark.parametrize("platform", ["cpu", "cuda"])
@pytest.mark.parametrize("low", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    "seeds", [range(40), pytest.param(range(40, 1000), marks=pytest.mark.slow)], ids=["40", "1000"]
)
def test_readers_of_one_value_whose_results_meet_again_agree(seeds: range, low: str, platform: str) -> None:
    plans = [planned(seed, low, platform) for seed in seeds]
    assert {seed: found for seed, plan in zip(seeds, plans, strict=True) if (found := faults(plan))} == {}
    assert sum(plan.changes_anything for plan in plans) > len(plans) // 2
