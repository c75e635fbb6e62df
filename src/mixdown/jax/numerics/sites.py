"""The equations of a program that are probed, numbered in the order in which they run: `sites_of`.

An equation is known by its path: its number in its jaxpr, after the numbers of the equations and bodies around it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp

from mixdown.jax.private import line_of
from mixdown.jax.reading.equations import CALLS, is_literal, opened
from mixdown.jax.reading.scope import Scope

Path = tuple[int, ...]

CONSTANT = "constant"
"""What an operand is called that no equation made."""


@dataclass(frozen=True)
class ProbedEquation:
    """One equation, and what to call it."""

    equation: Any
    name: str
    layer: str
    line: str
    reads: tuple[str, ...]  # the names of what made its operands

    @property
    def kind(self) -> str:
        """Its primitive."""
        return str(self.equation.primitive.name)

    @property
    def dtype(self) -> str:
        """The dtype of its first float result."""
        return next((str(each.aval.dtype) for each in self.equation.outvars if is_float(each)), "")

    @property
    def narrows(self) -> bool:
        """Whether it is a cast to fewer digits."""
        return is_cast(self.equation) and _size(self.equation.outvars[0]) < _size(self.equation.invars[0])


class Sites(NamedTuple):
    """The probed equations of a program by their paths, and the first of them that reads what each makes."""

    equations: dict[Path, ProbedEquation]
    readers: dict[Path, Path]

    def reader(self, number: int) -> ProbedEquation | None:
        """The first equation that reads what an equation makes, inside a loop as well; None if none does."""
        path = list(self.equations)[number]
        return self.equations[self.readers[path]] if path in self.readers else None


def sites_of(closed: Any, arguments: Sequence[str]) -> Sites:
    """The equations of a program that are probed, those with floats that are not entered, by its arguments' names."""
    walk = _Walk()
    origins = {each: _Origin(name) for each, name in zip(closed.jaxpr.invars, arguments, strict=True)}
    walk.through(closed.jaxpr, (), Scope({}), origins)
    return Sites(walk.equations, walk.readers)


def entered(equation: Any) -> list[tuple[Any, Sequence[Any]]]:
    """The jaxprs inside an equation with the operands that each is given, in the order in which they run.

    None of an equation that is probed as a whole.
    """
    name, params, operands = equation.primitive.name, equation.params, equation.invars
    if name in CALLS:
        return [(params[CALLS[name]], operands)]
    if name == "scan":
        return [(params["jaxpr"], operands)]
    if name == "while":
        tests, works = params["cond_nconsts"], params["body_nconsts"]
        tested = [*operands[:tests], *operands[tests + works :]]
        return [(params["cond_jaxpr"], tested), (params["body_jaxpr"], operands[tests:])]
    if name == "cond":
        return [(branch, operands[1:]) for branch in params["branches"]]
    return []


class _Origin(NamedTuple):
    """What a variable comes from."""

    name: str
    path: Path | None = None  # of the equation that made it, if that is probed


class _Walk:
    """Goes through a program; names are unique in all of it, as in a report."""

    def __init__(self) -> None:
        self.equations: dict[Path, ProbedEquation] = {}
        self.readers: dict[Path, Path] = {}
        self._names: Counter[str] = Counter()

    def through(self, jaxpr: Any, path: Path, scope: Scope, origins: dict[Any, _Origin]) -> None:
        """Note the equations of a jaxpr, given where the variables come from that it is called with."""
        for number, equation in enumerate(jaxpr.eqns):
            at, inside = (*path, number), scope.at(equation)
            name = inside.name(equation.primitive.name)
            for count, (body, operands) in enumerate(entered(equation)):
                inner, _ = opened(body)
                given = zip(inner.invars, (_origin(atom, origins) for atom in operands), strict=True)
                self.through(inner, (*at, count), inside, dict(given))
            made = _Origin(name)
            if not entered(equation) and any(map(is_float, (*equation.invars, *equation.outvars))):
                made = self._note(equation, at, inside, origins)
            origins.update((variable, made) for variable in equation.outvars)

    def _note(self, equation: Any, path: Path, scope: Scope, origins: Mapping[Any, _Origin]) -> _Origin:
        """Note an equation; returns what its results come from, which for a cast is what its operand comes from."""
        read = [_origin(atom, origins) for atom in equation.invars]
        name = self._unique(scope.name(equation.primitive.name))
        line = line_of(scope.origin)
        self.equations[path] = ProbedEquation(equation, name, scope.path, line, tuple(each.name for each in read))
        for each in read:
            if each.path is not None:
                self.readers.setdefault(each.path, path)
        return _Origin(read[0].name if is_cast(equation) else name, path)

    def _unique(self, name: str) -> str:
        self._names[name] += 1
        return name if self._names[name] == 1 else f"{name}_{self._names[name] - 1}"


def is_float(atom: Any) -> bool:
    """Whether a variable or literal holds floats."""
    return bool(jnp.issubdtype(getattr(atom.aval, "dtype", bool), jnp.inexact))


def is_cast(equation: Any) -> bool:
    """Whether an equation converts floats to floats."""
    ports = (equation.invars[0], equation.outvars[0]) if equation.primitive.name == "convert_element_type" else ()
    return bool(ports) and all(map(is_float, ports))


def _origin(atom: Any, origins: Mapping[Any, _Origin]) -> _Origin:
    return _Origin(CONSTANT) if is_literal(atom) else origins.get(atom, _Origin(CONSTANT))


def _size(variable: Any) -> int:
    return int(variable.aval.dtype.itemsize)
