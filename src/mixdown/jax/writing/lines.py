"""The equations of a jaxpr while it is written: `Lines`. Nothing is traced: most equations are taken over as they are.

Equations that are written in line, in place of a call, get variables of their own: one jaxpr may be called often.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.extend.core import Literal, Var

from mixdown.jax import private
from mixdown.jax.reading.equations import FULL


class Lines:
    """The equations of a jaxpr so far, and what the variables of the original stand for in them.

    Args:
        variables: the constants and arguments of the original.
        atoms: what they stand for.
        caller: the lines into which these are written, None if they are a jaxpr of their own.
        origin: the source info of the call, if there is one.
    """

    def __init__(
        self, variables: Iterable[Any], atoms: Iterable[Any], caller: Lines | None = None, origin: Any = None
    ) -> None:
        self.equations: list[Any] = [] if caller is None else caller.equations
        self.constants: list[tuple[Any, Any]] = [] if caller is None else caller.constants
        """Variables for constants that came with calls, and their values."""
        self._origin = origin
        self._atoms = dict(zip(variables, atoms, strict=True))
        self._casts: dict[tuple[Any, Any], Any] = {}

    def __getitem__(self, atom: Any) -> Any:
        return atom if type(atom) is Literal else self._atoms.get(atom, atom)

    def put(self, variables: Iterable[Any], atoms: Iterable[Any]) -> None:
        """Let variables of the original stand for these."""
        self._atoms.update(zip(variables, atoms, strict=True))

    def constant(self, variable: Any, value: Any) -> Any:
        """A new variable for a constant of a call."""
        self.constants.append((Var(variable.aval), value))
        return self.constants[-1][0]

    def origin_of(self, equation: Any) -> Any:
        """The source info of an equation, with the scopes of the call around it."""
        return equation.source_info if self._origin is None else private.inside(self._origin, equation.source_info)

    def add(self, equation: Any, operands: list[Any], params: dict[str, Any] | None = None, types: Any = None) -> None:
        """Add an equation like another one, with these operands, and with parameters and types of results if given."""
        is_inner = self._origin is not None
        if types is None and not is_inner:
            unchanged = operands == equation.invars
            self.equations.append(equation if unchanged else equation.replace(invars=operands))
            return
        types = [variable.aval for variable in equation.outvars] if types is None else types
        results = [
            Var(aval) if is_inner or variable.aval is not aval else variable
            for variable, aval in zip(equation.outvars, types, strict=True)
        ]
        self.put(equation.outvars, results)
        origin = self.origin_of(equation)
        self.equations.append(equation.replace(invars=operands, outvars=results, params=params, source_info=origin))

    def add_traced(self, equation: Any, function: Callable[..., Any], operands: list[Any]) -> None:
        """Add what a function of these operands does, in place of an equation."""

        def run(*arguments: Any) -> Any:
            with private.AsTraced(equation):
                return function(*arguments)

        made = jax.make_jaxpr(run)(*(atom.aval for atom in operands))
        inner = Lines(made.jaxpr.invars, operands)
        for each in made.jaxpr.eqns:
            operands = [inner[atom] for atom in each.invars]
            self.equations.append(each.replace(invars=operands, source_info=self.origin_of(each)))
        self.constants.extend(zip(made.jaxpr.constvars, made.consts, strict=True))
        self.put(equation.outvars, [inner[atom] for atom in made.jaxpr.outvars])

    def cast(self, atom: Any, dtype: Any, near: Any, *, rounded: bool = False) -> Any:
        """An operand in a dtype; a value is cast once for all its readers.

        Args:
            atom: the operand, as the original names it.
            dtype: the dtype.
            near: the equation that reads it.
            rounded: whether a 16-bit value is to be read as it is stored; else XLA may leave out the rounding.
        """
        value = self[atom]
        before = value.aval.dtype
        if before is dtype or before == dtype:
            return value
        if type(atom) is Literal:
            return self.converted(value, dtype, near)
        if (atom, dtype) not in self._casts:
            kept = (
                self._like(_barrier(value.aval.dtype), value, value.aval, near) if rounded and dtype == FULL else value
            )
            self._casts[atom, dtype] = self.converted(kept, dtype, near)
        return self._casts[atom, dtype]

    def converted(self, value: Any, dtype: Any, near: Any) -> Any:
        """A value in a dtype, cast for this once."""
        before = value.aval.dtype
        if before == dtype:
            return value
        if type(value) is Literal and not value.aval.shape:
            return _number(np.asarray(value.val, dtype).tobytes(), dtype)
        return self._like(_conversion(before, dtype), value, with_dtype(value.aval, dtype), near)

    def _like(self, template: Any, operand: Any, aval: Any, near: Any) -> Any:
        """Add an equation like this one, in the scopes of another one."""
        result = Var(aval)
        origin, settings = (template.source_info, template.ctx) if near is None else (self.origin_of(near), near.ctx)
        self.equations.append(template.replace(invars=[operand], outvars=[result], source_info=origin, ctx=settings))
        return result


@lru_cache(maxsize=4096)
def with_dtype(aval: Any, dtype: Any) -> Any:
    """The type of an array that is cast."""
    return aval.update(dtype=dtype, weak_type=False)


@lru_cache(maxsize=64)
def _conversion(before: Any, after: Any) -> Any:
    """An equation that casts a number."""
    return _equation(lambda x: lax.convert_element_type(x, after), before)


@lru_cache(maxsize=64)
def _barrier(dtype: Any) -> Any:
    """An equation that hides from the compiler where a number comes from."""
    return _equation(lax.optimization_barrier, dtype)


@lru_cache(maxsize=4096)
def _number(stored: bytes, dtype: Any) -> Any:
    """A number that is written into an equation, given as it is stored."""
    return _equation(lambda x: lax.add(x, np.frombuffer(stored, dtype).reshape(())), dtype).invars[1]


def _equation(function: Callable[[Any], Any], dtype: Any) -> Any:
    """The one equation of a function of a number."""
    (equation,) = jax.make_jaxpr(function)(jax.ShapeDtypeStruct((), dtype)).eqns
    return equation


def same_types(operands: Sequence[Any], originals: Sequence[Any]) -> bool:
    """Whether operands have the types of those that they stand for."""
    for atom, original in zip(operands, originals, strict=True):
        if atom is not original and atom.aval is not original.aval and atom.aval != original.aval:
            return False
    return True
