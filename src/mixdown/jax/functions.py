"""Mixed precision for one function: `rewrite`. It uses public functions of JAX only, so any transformation composes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import jaxpr_as_fun

from mixdown.core import Policy
from mixdown.jax.programs import Program, plan_program, policy_for_jax, takes_part
from mixdown.jax.warnings import warn_idle


def rewrite(function: Callable[..., Any], policy: Policy | None = None) -> Callable[..., Any]:
    """A function that computes the same with ops in 16 bits: same arguments, same results, same dtypes.

    Wrap the whole training step if you can: then forward pass, backward pass and update are planned together. The
    function is traced once for every combination of shapes, dtypes and static arguments, as by `jax.jit`, which you may
    put around it, inside it, or leave out; `jax.grad`, `jax.vmap` and the others work on it too.

    Args:
        function: takes and returns pytrees. Leaves that are no arrays are passed on as they are.
        policy: what may run in 16 bits, and where. By default bfloat16, on GPUs and TPUs.

    Returns:
        The function. Its attribute `programs` holds the plans made so far.
    """
    policy = policy_for_jax(policy)
    known: dict[Any, tuple[Program, Traced]] = {}

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        platform = jax.default_backend()
        if not takes_part(policy, platform):
            warn_idle(policy, platform)
            return function(*args, **kwargs)
        traced = Traced(function, args, kwargs)
        if (key := traced.key(platform)) in known:
            program, before = known[key]
            return before.rebuilt(jaxpr_as_fun(program.rewritten)(*traced.arrays))
        closed = traced.trace()
        program = plan_program(closed, policy, platform)
        if key is not None and not any(isinstance(const, jax.core.Tracer) for const in closed.consts):
            known[key] = program, traced
        return traced.rebuilt(jaxpr_as_fun(program.rewritten)(*traced.arrays))

    call.programs = lambda: [program for program, _ in known.values()]  # type: ignore[attr-defined]  # documented above
    return call


class Traced:
    """A call of a function: its arguments as arrays and the rest, and how its results are put together again."""

    def __init__(self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        self._function = function
        self._leaves, self._tree = jax.tree.flatten((tuple(args), kwargs))
        self._places = [place for place, leaf in enumerate(self._leaves) if is_array(leaf)]
        self._out_tree: Any = None
        self._out_rest: dict[int, Any] = {}

    @property
    def arrays(self) -> list[Any]:
        """The arguments that are arrays."""
        return [self._leaves[place] for place in self._places]

    def key(self, platform: str) -> Any:
        """What the trace depends on; None if that cannot be compared."""
        places = set(self._places)
        rest = tuple(leaf for place, leaf in enumerate(self._leaves) if place not in places)
        key = (platform, self._tree, tuple(map(jax.typeof, self.arrays)), tuple(self._places), rest)
        try:
            hash(key)
        except TypeError:
            return None
        return key

    def trace(self) -> Any:
        """The closed jaxpr of the call."""

        def flat(*arrays: Any) -> list[Any]:
            leaves = list(self._leaves)
            for place, array in zip(self._places, arrays, strict=True):
                leaves[place] = array
            args, kwargs = jax.tree.unflatten(self._tree, leaves)
            results, self._out_tree = jax.tree.flatten(self._function(*args, **kwargs))
            self._out_rest = {place: result for place, result in enumerate(results) if not is_array(result)}
            return [result for result in results if is_array(result)]

        return jax.make_jaxpr(flat)(*self.arrays)

    def rebuilt(self, arrays: Sequence[Any]) -> Any:
        """The results, from those that are arrays."""
        remaining = iter(arrays)
        count = self._out_tree.num_leaves
        return jax.tree.unflatten(
            self._out_tree,
            [self._out_rest[place] if place in self._out_rest else next(remaining) for place in range(count)],
        )


def is_array(leaf: Any) -> bool:
    """Whether a leaf of a pytree is an array or a number, rather than something that JAX leaves alone."""
    return isinstance(leaf, jax.Array | np.ndarray | np.generic | bool | int | float | complex | jax.ShapeDtypeStruct)
