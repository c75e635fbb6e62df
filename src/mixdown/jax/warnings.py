"""What the JAX host warns of."""

from __future__ import annotations

from functools import cache

from mixdown.core import Policy
from mixdown.messages import warn


@cache
def warn_idle(policy: Policy, platform: str) -> None:
    """Warn, once, that a policy leaves the devices of this machine out."""
    warn(idle_warning(policy, platform))


def idle_warning(policy: Policy, platform: str) -> str:
    """The warning for a machine whose devices a policy leaves out."""
    return (
        f"Mixed precision has no effect here: JAX runs on the {platform.upper()}, and the policy is for "
        f"{' and '.join(policy.devices)} only. Everything runs in float32. To let the {platform.upper()} take part, "
        f"for tests or to save memory, pass policy=mixdown.Policy(rules='jax', low={policy.low!r}, devices='all')."
    )
