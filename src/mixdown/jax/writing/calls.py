"""How a call is written: with the same primitive around a jaxpr that is written anew. Start with `CALLERS`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import jax
from jax import lax
from jax.extend.core import Var, jaxpr_as_fun
from jax.extend.linear_util import wrap_init

from mixdown.jax import private
from mixdown.jax.reading.equations import FULL, is_full
from mixdown.jax.reading.scope import ReadJaxpr, Step
from mixdown.jax.writing.lines import Lines
from mixdown.jax.writing.values import Painted, original_dtypes

SMALL = 4
"""Jitted helpers of at most so many equations, such as `relu`, are written in line: a call costs more than they do."""


class Writing(Protocol):
    """What of a writer calls need."""

    painted: Painted
    differentiable: bool

    def closed(self, body: ReadJaxpr, operands: Sequence[Any], results: Sequence[Any] = ()) -> Any:
        """A jaxpr with its constants."""

    def in_line(self, body: ReadJaxpr, step: Step, operands: Sequence[Any], lines: Lines) -> None:
        """Write a jaxpr in place of the equation that calls it."""


def jitted(writer: Writing, lines: Lines, step: Step, operands: list[Any]) -> None:
    """A jit inside the program: its shardings, donations and name are kept."""
    (body,), params = step.bodies, step.equation.params
    if params["inline"] or _is_helper(body, params):
        return writer.in_line(body, step, operands, lines)
    closed = writer.closed(body, operands)
    if closed.jaxpr is body.jaxpr:
        return lines.add(step.equation, operands)
    return lines.add(step.equation, operands, {**params, "jaxpr": closed}, closed.out_avals)


def _is_helper(body: ReadJaxpr, params: dict[str, Any]) -> bool:
    """Whether a jitted function is small, and nothing was said of how it is to be run."""
    free = not any(params["donated_invars"]) and not params["compiler_options_kvs"] and not body.jaxpr.effects
    return len(body.steps) <= SMALL and free


def rematerialized(writer: Writing, lines: Lines, step: Step, operands: list[Any]) -> None:
    """A checkpoint: what its policy recomputes is recomputed."""
    closed = writer.closed(step.bodies[0], operands)
    inner = closed.jaxpr
    if inner.constvars:  # it takes none, but arguments may be given
        given = [lines.constant(*each) for each in zip(inner.constvars, closed.consts, strict=True)]
        operands = [*given, *operands]
        inner = inner.replace(constvars=[], invars=[*inner.constvars, *inner.invars], debug_info=None)
    lines.add(step.equation, operands, {**step.equation.params, "jaxpr": inner}, closed.out_avals)


def in_line(writer: Writing, lines: Lines, step: Step, operands: list[Any]) -> None:
    """A call that does nothing but call."""
    writer.in_line(step.bodies[0], step, operands, lines)


def sharded(writer: Writing, lines: Lines, step: Step, operands: list[Any]) -> None:
    """A function mapped over shards: the same mesh and specifications, which do not depend on dtypes."""
    (body,), params = step.bodies, step.equation.params

    def function(*arguments: Any) -> tuple[Any, ...]:
        closed = writer.closed(body, [Var(jax.typeof(argument)) for argument in arguments])
        return tuple(jaxpr_as_fun(closed)(*arguments))

    mapped = jax.shard_map(
        function,
        mesh=params["mesh"],
        in_specs=tuple(params["in_specs"]),
        out_specs=tuple(params["out_specs"]),
        axis_names=private.manual_axes(params),
        check_vma=params["check_vma"],
    )
    lines.add_traced(step.equation, mapped, operands)


def with_own_jvp(writer: Writing, lines: Lines, step: Step, operands: list[Any]) -> None:
    """A function with a forward derivative of its own: the user's rule runs in float32, with casts at its ends."""
    (body,), equation = step.bodies, step.equation
    if not writer.differentiable:
        return writer.in_line(body, step, operands, lines)
    (_, rule), _ = private.split_functions(equation.primitive, equation.params)
    closed = writer.closed(body, operands)
    made = [aval.dtype for aval in closed.out_avals]

    def in_full(*arguments: Any) -> list[Any]:
        widened = [
            _cast_known(value, FULL) if is_full(atom) else value
            for atom, value in zip(equation.invars * 2, arguments, strict=True)
        ]
        return [_cast_known(value, dtype) for value, dtype in zip(rule.call_wrapped(*widened), made * 2, strict=True)]

    functions = (_wrapped(closed), wrap_init(in_full, debug_info=rule.debug_info))
    return _add_with_rules(lines, step, operands, functions)


def with_own_vjp(writer: Writing, lines: Lines, step: Step, operands: list[Any]) -> None:
    """A function with a backward derivative of its own: rewritten inside, float32 at its ends, where the rule reads."""
    (body,), equation = step.bodies, step.equation
    if not writer.differentiable:
        return writer.in_line(body, step, operands, lines)
    operands = [
        lines.converted(value, FULL, equation) if is_full(atom) else value
        for atom, value in zip(equation.invars, operands, strict=True)
    ]
    closed = writer.closed(body, operands, original_dtypes(body.jaxpr.outvars))
    (_, *rules), _ = private.split_functions(equation.primitive, equation.params)
    return _add_with_rules(lines, step, operands, (_wrapped(closed), *rules))


def _wrapped(closed: Any) -> Any:
    """A jaxpr as a function that JAX may differentiate."""
    return wrap_init(jaxpr_as_fun(closed), debug_info=closed.jaxpr.debug_info)


def _add_with_rules(lines: Lines, step: Step, operands: list[Any], functions: Sequence[Any]) -> None:
    """Add a call of a function with derivative rules."""
    equation = step.equation

    def bound(*arguments: Any) -> Any:
        return private.bind(equation.primitive, arguments, equation.params, functions)

    lines.add_traced(equation, bound, operands)


def _cast_known(value: Any, dtype: Any) -> Any:
    """A float32 or 16-bit value in a dtype; a zero that is not spelled out is left to JAX."""
    known = isinstance(value, jax.Array | jax.core.Tracer) or hasattr(value, "__array__")
    return lax.convert_element_type(value, dtype) if known and getattr(value, "dtype", None) != dtype else value


CALLERS: dict[str, Callable[[Any, Lines, Step, list[Any]], None]] = {
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
