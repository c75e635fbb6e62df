"""Functions rewritten with all they call and all that TensorFlow may choose in their place: `rewrite_function`.

Nothing is registered and nothing is run here, so that a preview shows byte for byte what is applied: the names of twins
depend on what they are twins of, and on nothing else.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from mixdown.core import Paint, Plan, make_plan
from mixdown.tensorflow.protos.bodies import function_body
from mixdown.tensorflow.protos.library import group_of, members, rename_groups
from mixdown.tensorflow.reading.read import Reading, read
from mixdown.tensorflow.writing.apply import apply
from mixdown.tensorflow.writing.known_plans import Asked, KnownPlans, planned


class RewrittenFunction(NamedTuple):
    """A function's plan, and the twins that carry it out: pairs of original name and FunctionDef, the root's first."""

    plan: Plan
    reading: Reading
    twins: Sequence[tuple[str, Any]]  # none if nothing in it can be 16-bit


def rewrite_function(
    library: Mapping[str, Any],
    asked: Asked,
    groups: dict[str, bytes] | None = None,
    known_plans: KnownPlans | None = None,
) -> RewrittenFunction:
    """Rewrite a function and whatever has to change with it.

    Args:
        library: all functions that TensorFlow knows.
        asked: what to do.
        groups: the groups of functions looked at before, so that they need not be looked at again; grows.
        known_plans: plans made before, of which one may suit; gets the new one.
    """
    made = planned(library, asked) if known_plans is None else known_plans.planned(library, asked)
    reading, plan = made.reading, made.plan
    if not plan.changes_anything:
        return RewrittenFunction(plan, reading, ())
    _, families = apply_to_families(reading, plan, asked.device, lambda head: _suffix(asked, head), known=groups)
    return RewrittenFunction(plan, reading, [pair for family in families for pair in family.items()])


def apply_to_families(
    reading: Reading,
    plan: Plan,
    device: str,
    suffix: Callable[[str], str],
    *,
    paints: Sequence[Paint] | None = None,
    known: dict[str, bytes] | None = None,
) -> tuple[Any, list[dict[str, Any]]]:
    """Write a plan down, as `apply` does, and twins of all functions that TensorFlow may choose in place of others.

    Where a function belongs to a group, every member of the group gets a twin, planned on its own with all that it
    calls; the twins make up a group of their own.

    Args:
        reading: what the plan's graph was read from.
        plan: what to do.
        device: the type of device for nodes that name none.
        suffix: what follows the original's name in that of a twin, given the outermost function of its family ("" for
            a graph); `suffix("")` also marks the new groups.
        paints: what each site gets, where that is not what the plan says.
        known: the groups of functions looked at before; grows.

    Returns:
        The outermost graph or function, and the families: twins by the names of their originals. The first has all that
        the outermost calls, and the outermost itself if it is a function.
    """
    groups = {group_of(body.proto) for body in reading.bodies if body.function} - {b""}
    root, family = _apply_to_family(reading, plan, suffix, groups, paints)
    families = [family]
    for member in members(reading.library, groups, {} if known is None else known):
        if not any(member in family for family in families):
            own = read(function_body(reading.library[member]), reading.library, plan.policy, default_device=device)
            families.append(_apply_to_family(own, make_plan(own.graph, plan.policy), suffix, groups)[1])
    rename_groups(families, suffix(""))
    return root, families


def _apply_to_family(
    reading: Reading,
    plan: Plan,
    suffix: Callable[[str], str],
    groups: set[bytes],
    paints: Sequence[Paint] | None = None,
) -> tuple[Any, dict[str, Any]]:
    head = reading.bodies[0].function
    also = [body.function for body in reading.bodies if body.function and group_of(body.proto) in groups]
    behind = suffix(head)
    root, twins = apply(reading, plan, lambda name: f"{name}{behind}", also, paints)
    return root, {head: root, **twins} if head else twins


def _suffix(asked: Asked, head: str) -> str:
    """What the names of twins end in: another one for every root, family, policy and device."""
    named = json.dumps([asked.root, head, asked.device, asked.policy.to_dict()], sort_keys=True)
    digest = blake2b(named.encode(), digest_size=8).hexdigest()
    return f"__{asked.policy.low}_{digest}"
