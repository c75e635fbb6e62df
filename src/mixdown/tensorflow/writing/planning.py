"""A function or graph read and planned, with normalizations put onto one op each where that gains: `read_and_plan`."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from mixdown.core import Paint, Plan, Policy, make_plan
from mixdown.core.graph import Merged
from mixdown.tensorflow.fusing.fuse import Fused, Name, fused
from mixdown.tensorflow.protos.bodies import Body
from mixdown.tensorflow.reading.arithmetic import tensors_by_use
from mixdown.tensorflow.reading.builder import Use
from mixdown.tensorflow.reading.read import Reading, read
from mixdown.tensorflow.shapes.variable_handles import Handle


def read_and_plan(
    body: Body,
    library: Mapping[str, Any],
    policy: Policy,
    preserved: Collection[str] = (),
    *,
    default_device: str = "",
    handles: Mapping[int, Handle] = MappingProxyType({}),
) -> tuple[Reading, Plan, frozenset[Name]]:
    """Read a body and all it calls, and plan it; arguments as for `read`.

    Returns:
        What was read, its plan, and the normalizations that were left alone because they gain nothing.
    """
    left: frozenset[Name] = frozenset()
    while True:
        smaller = fused(body, library, policy, preserved, left)
        outermost, known = smaller.tree[0], smaller.library
        reading = read(outermost, known, policy, preserved, default_device=default_device, handles=handles)
        reading = _recorded(reading, smaller)
        plan = make_plan(reading.graph, policy)
        idle = _without_gain(plan, smaller)
        if not idle:
            return reading, plan, left
        left |= idle


def _recorded(reading: Reading, smaller: Fused) -> Reading:
    """What was read, with a record of the ops that were put together."""
    if not smaller.ops:
        return reading
    tensors, ops = tensors_by_use(reading.uses), {(op.function, op.name): op for op in smaller.ops}
    merged = tuple(
        Merged(index, made.parts, tensors[Use(origin.body, origin.node, 0)], made.moves)
        for index, (op, origin) in enumerate(zip(reading.graph.ops, reading.origins, strict=True))
        if (made := ops.get((op.function, op.name)))
    )
    return replace(reading, graph=replace(reading.graph, merged=merged))


def _without_gain(plan: Plan, smaller: Fused) -> frozenset[Name]:
    """The normalizations that cannot be 16-bit, and all of them if none is; variances if nothing is."""
    variances = frozenset((op.function, op.norm) for op in smaller.ops if not op.gradient)
    norms = [op for op in smaller.ops if op.gradient]
    graph, names = plan.graph, {(op.function, op.name): (op.function, op.norm) for op in norms}
    sites = [
        (names[op.function, op.name], op, site)
        for op in graph.ops
        if (op.function, op.name) in names
        for site in op.sites
    ]
    low = {norm for norm, _, site in sites if plan.paints[site] is Paint.LOW}
    able = {norm for norm, op, site in sites if op.frozen is None and graph.sites[site].kernel}
    idle = frozenset(names.values()) - (able if low else set())
    return idle if plan.changes_anything else idle | variances
