"""`mixdown.jax.compare`: what a function returns in float32 and rewritten, side by side."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from mixdown.core import Policy
from mixdown.jax.numerics.programs import TracedCall, chosen
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
