"""Writes a program as a plan says. The door is `written`; `Writer.closed` writes a jaxpr, equation by equation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax.extend.core import ClosedJaxpr, Var

from mixdown.core import Plan
from mixdown.jax import private
from mixdown.jax.reading.builder import NONE
from mixdown.jax.reading.equations import CALLS, FULL
from mixdown.jax.reading.read import ProgramReading
from mixdown.jax.reading.scope import ReadJaxpr, Step
from mixdown.jax.writing.calls import CALLERS
from mixdown.jax.writing.lines import Lines, same_types
from mixdown.jax.writing.loops import LOOPS
from mixdown.jax.writing.values import AS_IT_IS, Painted, original_dtypes

DTYPES = ("preferred_element_type", "new_dtype", "dtype", "out_dtype")
"""Parameters that say which dtype a result has."""


def written(reading: ProgramReading, plan: Plan, *, differentiable: bool) -> Any:
    """The closed jaxpr that runs a program by a plan: it takes and returns what the original does, in the same dtypes.

    Args:
        reading: the program.
        plan: what becomes 16-bit.
        differentiable: whether derivatives may be taken of it: then the user's own derivative rules are kept.
    """
    writer, jaxpr = Writer(Painted(plan), differentiable=differentiable), reading.body.jaxpr
    return writer.closed(reading.body, jaxpr.invars, original_dtypes(jaxpr.outvars))


class Writer:
    """Writes jaxprs equation by equation in the dtypes of their sites."""

    def __init__(self, painted: Painted, *, differentiable: bool) -> None:
        self.painted, self.differentiable = painted, differentiable
        self._types: dict[tuple[Any, ...], Any] = {}

    def closed(self, body: ReadJaxpr, operands: Sequence[Any], results: Sequence[Any] = ()) -> Any:
        """A jaxpr with its constants, for operands of these types; its results in these dtypes, if some are given.

        One in which nothing changes is the original: JAX compiles what several equations call only once.
        """
        jaxpr = body.jaxpr
        invars = [
            variable if variable.aval == operand.aval else Var(operand.aval)
            for variable, operand in zip(jaxpr.invars, operands, strict=True)
        ]
        lines = Lines(jaxpr.invars, invars)
        made = self.write(body, lines)
        last = body.steps[-1].equation if body.steps else None
        for place, dtype in enumerate(results):
            if dtype is not AS_IT_IS:
                made[place] = lines.converted(made[place], dtype, last)
        if (invars, lines.equations, made) == (jaxpr.invars, jaxpr.eqns, jaxpr.outvars):
            return ClosedJaxpr(jaxpr, body.consts)
        constants = [*jaxpr.constvars, *(variable for variable, _ in lines.constants)]
        new = jaxpr.replace(constvars=constants, invars=invars, outvars=made, eqns=lines.equations)
        return ClosedJaxpr(new, [*body.consts, *(value for _, value in lines.constants)])

    def in_line(self, body: ReadJaxpr, step: Step, operands: Sequence[Any], lines: Lines) -> None:
        """Write a jaxpr in place of the equation that calls it."""
        jaxpr = body.jaxpr
        constants = [lines.constant(*each) for each in zip(jaxpr.constvars, body.consts, strict=True)]
        variables, atoms = (*jaxpr.constvars, *jaxpr.invars), (*constants, *operands)
        inner = Lines(variables, atoms, lines, lines.origin_of(step.equation))
        lines.put(step.equation.outvars, self.write(body, inner))

    def write(self, body: ReadJaxpr, lines: Lines) -> list[Any]:
        """Write the equations of a jaxpr; returns its results, each in the dtype in which it was made."""
        dtypes, rounded = self.painted.dtypes, self.painted.rounded
        for step in body.steps:
            equation, tensors = step.equation, step.tensors or (NONE,) * len(step.reads)
            operands = [
                lines[atom] if site == NONE else lines.cast(atom, dtypes[site], equation, rounded=tensor in rounded)
                for atom, site, tensor in zip(equation.invars, step.reads, tensors, strict=True)
            ]
            primitive = equation.primitive.name
            if primitive in CALLS:
                CALLERS[primitive](self, lines, step, operands)
            elif primitive in LOOPS:
                LOOPS[primitive](self, lines, step, operands)
            else:
                self._plain(lines, step, operands)
        return [lines[variable] for variable in body.jaxpr.outvars]

    def _plain(self, lines: Lines, step: Step, operands: list[Any]) -> None:
        equation, params = step.equation, step.equation.params
        if step.makes and step.makes[0] != NONE and (wanted := self.painted.dtypes[step.makes[0]]) is not FULL:
            new = {name: wanted for name in DTYPES if name in params and _is_float32(params[name])}
            params = {**params, **new} if new else params
        if params is equation.params and same_types(operands, equation.invars):
            lines.add(equation, operands)
            return
        types = self._made(equation, operands, params)
        if equation.primitive.name == "convert_element_type" and types[0] == operands[0].aval:
            lines.put(equation.outvars, operands)  # the program's own cast does nothing any more
        else:
            lines.add(equation, operands, params, types)

    def _made(self, equation: Any, operands: list[Any], params: dict[str, Any]) -> Any:
        """The types of what an equation makes of these operands."""
        avals = [atom.aval for atom in operands]
        key = (equation.primitive, equation.ctx, *avals, *params.values())
        try:
            return self._types[key]
        except KeyError:
            return self._types.setdefault(key, private.result_types(equation, avals, params))
        except TypeError:  # a parameter that cannot be compared
            return private.result_types(equation, avals, params)


def _is_float32(dtype: Any) -> bool:
    return dtype is not None and dtype == FULL
