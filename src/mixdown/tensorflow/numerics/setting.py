"""Which policy a tool works with, and whether anything would be low under it here."""

from __future__ import annotations

from mixdown.core import Policy
from mixdown.messages import warn
from mixdown.tensorflow.calls import active_policy
from mixdown.tensorflow.machine.gates import closed_gate, gate_warning


def policy_for(policy: Policy | None) -> tuple[Policy, bool]:
    """The policy given, or in force, or the default one; and whether no device takes part, so that all is full."""
    policy = policy or active_policy.current_policy() or Policy()
    gate = closed_gate(policy)
    if gate:
        warn(gate_warning(policy, gate))
    return policy, gate is not None
