"""Where every jitted program passes: `lowered` rewrites it just before JAX compiles it. `install` puts it there.

The policy in force is part of the key by which JAX finds compiled programs again, so each policy, and none, has
programs of its own: nothing is compiled twice, and nothing is done in a step that was compiled before.
"""

import functools
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from jax.extend.core import ClosedJaxpr

from mixdown.core import Category, Policy
from mixdown.errors import MixdownError
from mixdown.jax import private
from mixdown.jax.programs import Program, has_products, plan_program, takes_part
from mixdown.jax.warnings import warn_idle, warn_idle_rules
from mixdown.messages import warn

MOST = 500
"""So many programs are kept for the report."""


class Lowered(NamedTuple):
    """A program that was lowered while a policy was in force."""

    name: str
    policy: Policy
    program: Program | None  # None if it was left alone
    reason: str  # why, if it was


seen: deque[Lowered] = deque(maxlen=MOST)
"""What was lowered while a policy was in force, oldest first; programs in which nothing can be 16-bit are left out."""


@functools.cache
def in_force() -> Any:
    """The policy in force, as a user context of JAX: its value is None where none is."""
    return jax.make_user_context(None)


def policy_in_force() -> Policy | None:
    """The policy in force, None where none is or can be."""
    return in_force().value if hasattr(jax, "make_user_context") else None


@functools.cache
def install() -> None:
    """Let every program that is lowered from now on pass through `lowered`, once for the process, if this JAX can."""
    if missing := private.missing_for_hook():
        oldest, newest = private.TESTED
        raise MixdownError(
            f"mixdown cannot hook into JAX {jax.__version__}, which has no {missing}; it was tested on JAX {oldest} to "
            f"{newest}. mixdown.jax.rewrite(function) needs no hook: wrap your training step with it."
        )
    in_force()
    private.wrap_lowering(_wrapped)


def _wrapped(lower: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(lower)
    def lower_mixed(closed: Any, api_name: str, fun_name: str, *args: Any, **kwargs: Any) -> Any:
        policy = in_force().value
        if policy is not None and not private.is_for_export(kwargs):
            platforms = kwargs.get("lowering_platforms") or (jax.default_backend(),)
            closed = lowered(closed, fun_name, policy, platforms)
        return lower(closed, api_name, fun_name, *args, **kwargs)

    return lower_mixed


def lowered(closed: Any, name: str, policy: Policy, platforms: tuple[str, ...]) -> Any:
    """A program in mixed precision; as it was if the policy says so or if it cannot be rewritten."""
    if not has_products(closed.jaxpr) and not any(rule.category is Category.ALLOW for rule in policy.overrides):
        return closed
    left_out = next((platform for platform in platforms if not takes_part(policy, platform)), None)
    if left_out is not None:
        warn_idle(policy, left_out)
        return closed
    try:
        program = plan_program(closed, policy, platforms[0])
        found = program.closed(differentiable=False)
    except Exception as failure:  # noqa: BLE001 - whatever goes wrong here, the user's program must run
        return _left_alone(closed, name, policy, f"{type(failure).__name__}: {failure}")
    if [aval.dtype for aval in found.out_avals] != [aval.dtype for aval in closed.out_avals]:
        return _left_alone(closed, name, policy, "its results would have had other dtypes")
    seen.append(Lowered(name, policy, program, program.plan.idle_reason))
    warn_idle_rules(program.plan, name)
    return ClosedJaxpr(found.jaxpr.replace(debug_info=closed.jaxpr.debug_info), found.consts)


def _left_alone(closed: Any, name: str, policy: Policy, reason: str) -> Any:
    """Warn that a program is not rewritten although it should be."""
    seen.append(Lowered(name, policy, None, reason))
    warn(f"The program {name} stays float32, because mixdown could not rewrite it: {reason}. Please report this.")
    return closed
