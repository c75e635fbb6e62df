"""How loops and conditions are written: like the original around bodies that are written anew. See `LOOPS`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax.extend.core import Var

from mixdown.jax.reading.scope import Step
from mixdown.jax.writing.calls import Writing
from mixdown.jax.writing.lines import Lines, with_dtype


def scan(writer: Writing, lines: Lines, step: Step, operands: list[Any]) -> None:
    """A loop of known length."""
    (body,), params = step.bodies, step.equation.params
    closed = writer.closed(body, _arguments(body.jaxpr, operands), writer.painted.of(step.makes))
    _add(lines, step, operands, {**params, "jaxpr": closed}, closed)


def while_loop(writer: Writing, lines: Lines, step: Step, operands: list[Any]) -> None:
    """A loop until a condition holds."""
    (test, work), params = step.bodies, step.equation.params
    tests = params["cond_nconsts"]
    carried = operands[tests + params["body_nconsts"] :]
    goes_on = writer.closed(test, _arguments(test.jaxpr, [*operands[:tests], *carried]))
    closed = writer.closed(work, _arguments(work.jaxpr, operands[tests:]), writer.painted.of(step.makes))
    _add(lines, step, operands, {**params, "cond_jaxpr": goes_on, "body_jaxpr": closed}, closed)


def cond(writer: Writing, lines: Lines, step: Step, operands: list[Any]) -> None:
    """A choice among branches."""
    made = writer.painted.of(step.makes)
    branches = tuple(writer.closed(body, _arguments(body.jaxpr, operands[1:]), made) for body in step.bodies)
    _add(lines, step, operands, {**step.equation.params, "branches": branches}, branches[0])


def _arguments(jaxpr: Any, operands: Sequence[Any]) -> list[Any]:
    """The arguments of a body in the dtypes of the operands, of which it may see slices."""
    return [
        variable if variable.aval.dtype == operand.aval.dtype else Var(with_dtype(variable.aval, operand.aval.dtype))
        for variable, operand in zip(jaxpr.invars, operands, strict=True)
    ]


def _add(lines: Lines, step: Step, operands: list[Any], params: dict[str, Any], body: Any) -> None:
    """Add a loop, whose results have the dtypes of what its body makes."""
    equation = step.equation
    types = [
        variable.aval if variable.aval.dtype == made.dtype else with_dtype(variable.aval, made.dtype)
        for variable, made in zip(equation.outvars, body.out_avals, strict=True)
    ]
    lines.add(equation, operands, params, types)


LOOPS: dict[str, Callable[[Any, Lines, Step, list[Any]], None]] = {"scan": scan, "while": while_loop, "cond": cond}
"""Primitive -> how it is written."""
