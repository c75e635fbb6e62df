"""Mixed precision for one function: `rewrite`. It uses public functions of JAX only, so any transformation composes."""

import functools
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

import jax
import numpy as np
from jax.extend.core import jaxpr_as_fun

from mixdown.core import Policy
from mixdown.jax.programs import Program, plan_program, policy_for_jax, takes_part
from mixdown.jax.warnings import warn_idle, warn_idle_rules
from mixdown.tuning.memory import Identity, fingerprint
from mixdown.tuning.tuner import Tuner, timed


def rewrite(function: Callable[..., Any], policy: Policy | None = None) -> Callable[..., Any]:
    """A function that computes the same with ops in 16 bits: same arguments, same results, same dtypes.

    Wrap the whole training step if you can: then forward pass, backward pass and update are planned together. The
    function is traced once for every combination of shapes, dtypes and static arguments, as by `jax.jit`, which you may
    put around it, inside it, or leave out; `jax.grad`, `jax.vmap` and the others work on it too.

    Args:
        function: takes and returns pytrees. Leaves that are no arrays are passed on as they are.
        policy: what may run in 16 bits, and where. By default bfloat16, on GPUs and TPUs. With `strategy="tuned"` the
            first calls are timed, so put `jax.jit` inside, not around it.

    Returns:
        The function. Its attribute `programs` holds the plans made so far.
    """
    programs = _Programs(function, policy_for_jax(policy))

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        platform = jax.default_backend()
        if not takes_part(programs.policy, platform):
            warn_idle(programs.policy, platform)
            return function(*args, **kwargs)
        return programs.run(Traced(function, args, kwargs), platform)

    call.programs = lambda: [program for program, _ in programs.known.values()]  # type: ignore[attr-defined]  # documented above
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


class _Programs:
    """The programs of a function, by what they were traced for and by policy."""

    def __init__(self, function: Callable[..., Any], policy: Policy) -> None:
        self.policy, self._name = policy, name_of(function)
        self.known: dict[Any, tuple[Program, Traced]] = {}
        self._tuners: dict[Any, Tuner] = {}

    def run(self, traced: Traced, platform: str) -> Any:
        """Make a call. One that is being traced itself cannot be timed."""
        key, base = traced.key(platform), self.policy.untuned
        concrete = not any(isinstance(array, jax.core.Tracer) for array in traced.arrays)
        if self.policy.strategy != "tuned" or key is None or not concrete:
            return self._run(traced, key, base, platform)
        plan = self._planned(traced, key, base, platform)[0].plan
        if not plan.changes_anything:
            return self._run(traced, key, base, platform)
        if key not in self._tuners:
            versions = {each: version(each) for each in ("mixdown", "jax")}
            identity = Identity(self._name, fingerprint(plan), jax.devices()[0].device_kind, versions)
            self._tuners[key] = Tuner(self.policy, plan, identity)
        policy, note = self._tuners[key].next((), lambda each: self._planned(traced, key, each, platform)[0].plan)
        if note is None:
            return self._run(traced, key, policy, platform)
        jax.block_until_ready(traced.arrays)
        return timed(lambda: jax.block_until_ready(self._run(traced, key, policy, platform)), lambda: None, note)

    def _run(self, traced: Traced, key: Any, policy: Policy, platform: str) -> Any:
        program, before = self._planned(traced, key, policy, platform)
        return before.rebuilt(jaxpr_as_fun(program.rewritten)(*traced.arrays))

    def _planned(self, traced: Traced, key: Any, policy: Policy, platform: str) -> tuple[Program, Traced]:
        if key is not None and (key, policy) in self.known:
            return self.known[key, policy]
        closed = traced.trace()
        program = plan_program(closed, policy, platform)
        warn_idle_rules(program.plan, self._name)
        if key is not None and not any(isinstance(const, jax.core.Tracer) for const in closed.consts):
            self.known[key, policy] = program, traced
        return program, traced


def name_of(function: Callable[..., Any]) -> str:
    """What to call a function in front of people."""
    return str(getattr(function, "__name__", type(function).__name__))


def is_array(leaf: Any) -> bool:
    """Whether a leaf of a pytree is an array or a number, rather than something that JAX leaves alone."""
    return isinstance(leaf, jax.Array | np.ndarray | np.generic | bool | int | float | complex | jax.ShapeDtypeStruct)
