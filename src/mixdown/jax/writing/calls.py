"""How a call is written: with the same primitive around a jaxpr that was traced again. Start with `CALLERS`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import jax
from jax.extend.linear_util import wrap_init

from mixdown.jax import private
from mixdown.jax.reading.equations import FULL, is_full
from mixdown.jax.reading.scope import ReadJaxpr, Step
from mixdown.jax.writing.values import Painted, cast, in_float32

SMALL = 4
"""Jitted helpers of at most so many equations, such as `relu`, are written in line: a call costs more than they do."""


class Running(Protocol):
    """What of a writer calls need."""

    painted: Painted
    differentiable: bool

    def run(self, body: ReadJaxpr, arguments: Sequence[Any]) -> list[Any]:
        """The results of a jaxpr."""


def jitted(writer: Running, step: Step, operands: list[Any]) -> Sequence[Any]:
    """A jit inside the program: its shardings, donations and name are kept."""
    (body,), params = step.bodies, step.equation.params
    if params["inline"] or _is_helper(body, params):
        return writer.run(body, operands)
    closed = jax.make_jaxpr(lambda *arguments: writer.run(body, arguments))(*operands)
    return step.equation.primitive.bind(*operands, **{**params, "jaxpr": closed})


def _is_helper(body: ReadJaxpr, params: dict[str, Any]) -> bool:
    """Whether a jitted function is small, and nothing was said of how it is to be run."""
    return len(body.steps) <= SMALL and not any(params["donated_invars"]) and not params["compiler_options_kvs"]


def rematerialized(writer: Running, step: Step, operands: list[Any]) -> Sequence[Any]:
    """A checkpoint: what its policy recomputes is recomputed."""
    (body,) = step.bodies
    closed = jax.make_jaxpr(lambda *arguments: writer.run(body, arguments))(*operands)
    inner = closed.jaxpr
    if inner.constvars:  # it takes none, but arguments may be given
        inner = inner.replace(constvars=[], invars=[*inner.constvars, *inner.invars], debug_info=None)
    return step.equation.primitive.bind(*closed.consts, *operands, **{**step.equation.params, "jaxpr": inner})


def in_line(writer: Running, step: Step, operands: list[Any]) -> Sequence[Any]:
    """A call that does nothing but call."""
    return writer.run(step.bodies[0], operands)


def sharded(writer: Running, step: Step, operands: list[Any]) -> Sequence[Any]:
    """A function mapped over shards: the same mesh and specifications, which do not depend on dtypes."""
    (body,), params = step.bodies, step.equation.params
    mapped = jax.shard_map(
        lambda *arguments: tuple(writer.run(body, arguments)),
        mesh=params["mesh"],
        in_specs=tuple(params["in_specs"]),
        out_specs=tuple(params["out_specs"]),
        axis_names=private.manual_axes(params),
        check_vma=params["check_vma"],
    )
    return tuple(mapped(*operands))


def with_own_jvp(writer: Running, step: Step, operands: list[Any]) -> Sequence[Any]:
    """A function with a forward derivative of its own: the user's rule runs in float32, with casts at its ends."""
    (body,), equation = step.bodies, step.equation
    if not writer.differentiable:
        return writer.run(body, operands)
    (_, rule), _ = private.split_functions(equation.primitive, equation.params)
    made = [result.dtype for result in jax.eval_shape(lambda *arguments: writer.run(body, arguments), *operands)]

    def function(*arguments: Any) -> list[Any]:
        return writer.run(body, arguments)

    def in_full(*arguments: Any) -> list[Any]:
        widened = [
            _cast_known(value, FULL) if is_full(atom) else value
            for atom, value in zip(equation.invars * 2, arguments, strict=True)
        ]
        return [_cast_known(value, dtype) for value, dtype in zip(rule.call_wrapped(*widened), made * 2, strict=True)]

    functions = (wrap_init(function, debug_info=body.jaxpr.debug_info), wrap_init(in_full, debug_info=rule.debug_info))
    return private.bind(equation.primitive, operands, equation.params, functions)


def with_own_vjp(writer: Running, step: Step, operands: list[Any]) -> Sequence[Any]:
    """A function with a backward derivative of its own: rewritten inside, float32 at its ends, where the rule reads."""
    (body,), equation = step.bodies, step.equation
    if not writer.differentiable:
        return writer.run(body, operands)

    def function(*arguments: Any) -> list[Any]:
        return in_float32(body.jaxpr.outvars, writer.run(body, arguments))

    (_, *rules), _ = private.split_functions(equation.primitive, equation.params)
    functions = (wrap_init(function, debug_info=body.jaxpr.debug_info), *rules)
    return private.bind(equation.primitive, in_float32(equation.invars, operands), equation.params, functions)


def _cast_known(value: Any, dtype: Any) -> Any:
    """A float32 or 16-bit value in a dtype; a zero that is not spelled out is left to JAX."""
    return (
        cast(value, dtype) if isinstance(value, jax.Array | jax.core.Tracer) or hasattr(value, "__array__") else value
    )


CALLERS: dict[str, Callable[[Any, Step, list[Any]], Sequence[Any]]] = {
    "checkpoint": rematerialized,
    "closed_call": in_line,
    "core_call": in_line,
    "custom_jvp_call": with_own_jvp,
    "custom_vjp_call": with_own_vjp,
    "custom_vjp_call_jaxpr": with_own_vjp,
    "jit": jitted,
    "pjit": jitted,
    "remat2": rematerialized,
    "shard_map": sharded,
}
"""Primitive -> how it is written; the same primitives as in `CALLS`."""
