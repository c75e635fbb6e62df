"""The programs that the tools run: a function as it was traced, and as a policy has it rewritten."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
from jax.extend.core import jaxpr_as_fun

from mixdown.core import Policy
from mixdown.jax.functions import Traced, is_array, name_of
from mixdown.jax.lowering import in_force
from mixdown.jax.programs import plan_program, policy_for_jax, takes_part, without_dead_code
from mixdown.jax.warnings import warn_idle


class TracedCall:
    """A function with arguments, traced once. Leaves that are neither arrays nor numbers are constants of it."""

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self._traced = Traced(fn, args, {})
        self.arguments = self._traced.arrays
        self.original = without_dead_code(self._traced.trace())
        self.name = name_of(fn)
        leaves = jax.tree_util.tree_flatten_with_path(args)[0]
        self.argument_names = [f"args{jax.tree_util.keystr(path)}" for path, leaf in leaves if is_array(leaf)]

    def run(self, closed: Any) -> Any:
        """What the function returns if its program is this closed jaxpr, jitted."""
        with as_they_are():
            return self._traced.rebuilt(jax.jit(jaxpr_as_fun(closed))(*self.arguments))

    def rewritten(self, policy: Policy) -> Any:
        """Its closed jaxpr in mixed precision; as it is if the policy leaves this device out."""
        platform = jax.default_backend()
        if not takes_part(policy, platform):
            warn_idle(policy, platform)
            return self.original
        return plan_program(self.original, policy, platform).closed(differentiable=False)


def chosen(policy: Policy | None) -> Policy:
    """The policy that was asked for, or else the one in force, or else the default."""
    return policy_for_jax(policy or (in_force().value if _can_be_in_force() else None))


def as_they_are() -> AbstractContextManager[Any]:
    """A block in which jitted programs are not rewritten, even if mixed precision is enabled."""
    return in_force()(None) if _can_be_in_force() else nullcontext()


def _can_be_in_force() -> bool:
    """Whether this JAX has what it takes to put a policy in force."""
    return hasattr(jax, "make_user_context")
