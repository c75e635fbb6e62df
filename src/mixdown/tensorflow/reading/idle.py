"""Functions that no plan can change, recognized by the kinds of their ops alone: `is_idle`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mixdown.core import Category, Policy
from mixdown.tensorflow.protos.bodies import function_body, reachable
from mixdown.tensorflow.reading.read import UPGRADES


def is_idle(function: str, library: Mapping[str, Any], policy: Policy) -> bool:
    """Whether neither a function nor anything that it calls has an op that a policy allows.

    Every 16-bit op is next to an allowed one, or connected with one by 16-bit ops. Nothing but kinds is looked at: a
    rule of the policy that allows ops by name or scope counts as if it matched.
    """
    if any(not rule.is_plain and rule.category is Category.ALLOW for rule in policy.overrides):
        return False
    categories = policy.categories()
    body = function_body(library[function])
    nodes = [body.nodes, *(library[name].node_def for name in reachable(body, library))]
    kinds = {node.op for each in nodes for node in each}
    kinds.update(UPGRADES[kind] for kind in UPGRADES.keys() & kinds)
    return not any(categories.get(kind) is Category.ALLOW for kind in kinds)
