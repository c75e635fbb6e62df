"""`mixdown.jax.compare`: what a function returns in float32 and rewritten, side by side.

`TracedCall` has both programs, for the other tools too.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import numpy as np
from jax.extend.core import jaxpr_as_fun

from mixdown.core import Policy
from mixdown.jax.functions import Traced, is_array, name_of
from mixdown.jax.lowering import in_force, policy_in_force
from mixdown.jax.programs import plan_program, policy_for_jax, takes_part, without_dead_code
from mixdown.jax.warnings import warn_idle
from mixdown.numerics.comparison import Compared, Comparison, errors_between


def compare(fn: Callable[..., Any], *args: Any, policy: Policy | None = None) -> Comparison:
    """Run a function as it is and as the policy has it, jitted, on the same arguments, and compare what it returns.

    Args:
        fn: any function that JAX can trace: a training step that returns gradients or new parameters, or a loss.
        args: what to call it with; they are not donated.
        policy: what may run in 16 bits; by default the policy in force, or else the default policy.

    Returns:
        The errors of every float array that it returns, under its path in what it returns.
    """
    program = TracedCall(fn, args)
    expected, got = (program.run(each) for each in (program.original, program.rewritten(chosen(policy))))
    pairs = zip(jax.tree_util.tree_flatten_with_path(expected)[0], jax.tree.leaves(got), strict=True)
    return Comparison((), tuple(_row(at, *pair) for at, pair in enumerate(pairs) if _is_float(pair[1])))


def _row(at: int, expected: tuple[Any, Any], got: Any) -> Compared:
    path, value = expected
    wide = np.float64 if value.dtype == np.float64 else np.float32  # in which NumPy computes
    full, mixed = (np.asarray(each).astype(wide) for each in (value, got))
    name = f"output{jax.tree_util.keystr(path)}"
    return Compared(name, "output", at, "", str(got.dtype), errors_between([full], [mixed]))


def _is_float(value: Any) -> bool:
    return bool(jax.dtypes.issubdtype(getattr(value, "dtype", type(value)), np.floating))


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
    return policy_for_jax(policy or policy_in_force())


def as_they_are() -> AbstractContextManager[Any]:
    """A block in which jitted programs are not rewritten, even if mixed precision is enabled."""
    return in_force()(None) if hasattr(jax, "make_user_context") else nullcontext()
