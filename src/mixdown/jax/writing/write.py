"""Runs a program as a plan says. The door is `written`; `Writer.run` goes through the equations of a jaxpr."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mixdown.core import Plan
from mixdown.jax import private
from mixdown.jax.reading.builder import NONE
from mixdown.jax.reading.equations import CALLS, FULL
from mixdown.jax.reading.read import ProgramReading
from mixdown.jax.reading.scope import ReadJaxpr, Step
from mixdown.jax.writing.calls import CALLERS
from mixdown.jax.writing.loops import LOOPS
from mixdown.jax.writing.values import Painted, Variables, in_float32

DTYPES = ("preferred_element_type", "new_dtype", "dtype", "out_dtype")
"""Parameters that say which dtype a result has."""


def written(reading: ProgramReading, plan: Plan, *, differentiable: bool) -> Callable[..., list[Any]]:
    """The function that runs a program by a plan: it takes and returns what the jaxpr does, in the same dtypes.

    Args:
        reading: the program.
        plan: what becomes 16-bit.
        differentiable: whether derivatives may be taken of it: then the user's own derivative rules are kept.
    """
    writer = Writer(Painted(plan), differentiable=differentiable)

    def run(*arguments: Any) -> list[Any]:
        return in_float32(reading.body.jaxpr.outvars, writer.run(reading.body, arguments))

    return run


class Writer:
    """Runs jaxprs equation by equation in the dtypes of their sites."""

    def __init__(self, painted: Painted, *, differentiable: bool) -> None:
        self.painted, self.differentiable = painted, differentiable

    def run(self, body: ReadJaxpr, arguments: Sequence[Any]) -> list[Any]:
        """The results of a jaxpr, each in the dtype in which it was made."""
        jaxpr = body.jaxpr
        values = Variables((*jaxpr.constvars, *jaxpr.invars), (*body.consts, *arguments))
        for step in body.steps:
            with private.AsTraced(step.equation):
                results = self._step(step, values)
            values.put(step.equation.outvars, results)
        return [values[variable] for variable in jaxpr.outvars]

    def _step(self, step: Step, values: Variables) -> Sequence[Any]:
        primitive = step.equation.primitive.name
        dtypes, rounded = self.painted.dtypes, self.painted.rounded
        tensors = step.tensors or (NONE,) * len(step.reads)
        operands = [
            values[atom] if site == NONE else values.cast(atom, dtypes[site], rounded=tensor in rounded)
            for atom, site, tensor in zip(step.equation.invars, step.reads, tensors, strict=True)
        ]
        if primitive in CALLS:
            return CALLERS[primitive](self, step, operands)
        if primitive in LOOPS:
            return LOOPS[primitive](self, step, operands)
        return self._plain(step, operands)

    def _plain(self, step: Step, operands: list[Any]) -> Sequence[Any]:
        equation, params = step.equation, step.equation.params
        if equation.outvars and step.makes[0] != NONE and (wanted := self.painted.dtypes[step.makes[0]]) is not FULL:
            params = {**params, **{name: wanted for name in DTYPES if _is_float32(params.get(name))}}
        results = private.bind(equation.primitive, operands, params)
        return results if equation.primitive.multiple_results else [results]


def _is_float32(dtype: Any) -> bool:
    return dtype is not None and dtype == FULL
