"""What the JAX host warns of."""

from functools import cache, partial

from mixdown.core import Plan, Policy
from mixdown.core.rule_watch import RuleWatch
from mixdown.messages import warn

WAY_OUT = "JAX knows a layer by its scope: call the layer inside `with jax.named_scope({layer!r}):`."
"""What to do about a layer that no scope names, as those of flax NNX and equinox."""

_watches = cache(partial(RuleWatch, way_out=WAY_OUT))


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


def warn_idle_rules(plan: Plan, name: str) -> None:
    """Warn, once a rule, of rules that look at names and matched nothing yet, if a program is a training step.

    What runs after the program is compiled is not seen, so the first training step is judged as it is lowered.
    """
    watch = _watches(plan.policy)
    watch.see(plan)
    if watch.awaits(plan):
        watch.step_is_over(name)
