"""Which rules of a policy have matched nothing in a training step, and a warning that names the nearest layers.

A rule may match in one function of a step and not in another, so a host says when a whole step lies behind: `see` takes
every plan, and `step_is_over` warns of the rules that none of them used, each rule once.
"""

from __future__ import annotations

import re

from mixdown.core.override import Override
from mixdown.core.plan import Plan
from mixdown.core.policy import Policy
from mixdown.messages import warn
from mixdown.rules.layer_names import is_backward
from mixdown.rules.spellings import nearest

MOST = 3
"""So many layers are named in a warning."""


class RuleWatch:
    """The rules of a policy that look at names and have not matched anything yet.

    Args:
        policy: whose rules they are.
        way_out: what the host has to say where no layer has a similar name, with {layer} for the name that is missed.
    """

    def __init__(self, policy: Policy, way_out: str = "") -> None:
        self._way_out = way_out
        self.waiting = [override for override in policy.overrides if not override.is_plain]
        self._layers: set[str] = set()

    def see(self, plan: Plan) -> None:
        """Take note of the rules that match something in a plan."""
        if self.waiting:
            idle = plan.idle_overrides
            self.waiting = [override for override in self.waiting if override in idle]
            self._layers.update(plan.view.scopes.names())

    def awaits(self, plan: Plan | None) -> bool:
        """Whether a plan is that of a training step, and there are rules that have not matched yet."""
        return bool(self.waiting) and plan is not None and any(is_backward(op.name) for op in plan.graph.ops)

    def step_is_over(self, step: str = "") -> None:
        """Warn of the rules that have matched nothing so far, and wait for them no longer; the step may have a name."""
        idle, self.waiting = self.waiting, []
        place = f" in {step}" if step else ""
        for override in idle:
            warn(
                f"The rule {override.subject} of the policy has no effect{place}: in a whole training step it matched "
                f"no float32 op. {self._hint(override)}"
            )

    def _hint(self, override: Override) -> str:
        words = re.findall(r"\w+", override.layer or override.scope or override.name)
        near = [layer for word in reversed(words) for layer in nearest(word, sorted(self._layers), MOST)]
        found = list(dict.fromkeys(near))[:MOST]
        if not found:
            known = f"The layers are {', '.join(sorted(self._layers)[: 2 * MOST]) or 'not known'}, ..."
            return (
                f"{known} {self._way_out.format(layer=override.layer)}" if self._way_out and override.layer else known
            )
        named = f"{'Layers' if len(found) > 1 else 'A layer'} of a similar name: {', '.join(found)}."
        return f"{named} Write layer={found[0]!r}."
