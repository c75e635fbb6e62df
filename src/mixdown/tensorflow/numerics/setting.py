"""Which policy a tool works with, and whether anything would be low under it here."""

from __future__ import annotations

from mixdown.core import Policy
from mixdown.tensorflow import scopes
from mixdown.tensorflow.gates import closed_gate, gate_warning
from mixdown.tensorflow.hooks import warn


def policy_for(policy: Policy | None) -> tuple[Policy, bool]:
    """The policy given, or in force, or the default one; and whether no device takes part, so that all is full."""
    policy = policy or scopes.current_policy() or Policy()
    gate = closed_gate(policy)
    if gate:
        warn(gate_warning(policy, gate))
    return policy, gate is not None
