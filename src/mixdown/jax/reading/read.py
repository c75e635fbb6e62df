"""A closed jaxpr into a `ProgramReading`: `read` is the door, `ProgramReader.body` goes through the equations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from jax.extend.core import Literal

from mixdown.core import Graph, Role
from mixdown.jax.reading.builder import NONE, GraphBuilder
from mixdown.jax.reading.constants import constant_of, is_exact
from mixdown.jax.reading.equations import (
    ACCUMULATING,
    CALLS,
    EACH_BY_ITSELF,
    called,
    is_full,
    is_literal,
    kind_of,
)
from mixdown.jax.reading.facts import KnownFacts
from mixdown.jax.reading.loops import CONTROL_FLOW
from mixdown.jax.reading.scope import ReadJaxpr, Scope, Step

SIGNATURE = "it is an argument or a result of the program: who calls it relies on its dtype"
CONSTANT = "it is a constant of the program: a cast of it is done when the program is compiled"


class ProgramReading(NamedTuple):
    """A program as a graph, and the sites of its equations."""

    graph: Graph
    body: ReadJaxpr
    origins: list[tuple[Any, ...]]  # per op, its source info and those of the calls around it
    results: tuple[int, ...]  # per result of the program, the site that takes it, `NONE` if it is no float32 array


def read(closed: Any, *, accumulates: bool = False) -> ProgramReading:
    """Read a program.

    Args:
        closed: the closed jaxpr of the whole program.
        accumulates: whether the device can yield float32 from a product of 16-bit operands.
    """
    reader = ProgramReader(accumulates=accumulates)
    jaxpr = closed.jaxpr
    tensors: dict[Any, int] = {}
    for number, variable in enumerate(jaxpr.invars):
        if is_full(variable):
            (site,) = reader.build.op(f"argument {number}", "argument", frozen=SIGNATURE, role=Role.VARIABLE_READ)
            tensors[variable] = reader.build.tensor(site, variable.aval.shape, 1)
    arguments = frozenset(tensors.values())
    results = frozenset(variable for variable in jaxpr.outvars if not is_literal(variable))
    scope = Scope(tensors, arguments=arguments, results=results)
    body = reader.body(jaxpr, tuple(closed.consts), scope)
    sites = []
    for number, variable in enumerate(jaxpr.outvars):
        site = NONE
        if is_full(variable) and not is_literal(variable):
            (site,) = reader.build.op(f"result {number}", "result", frozen=SIGNATURE, role=Role.WRITE)
            reader.build.read(tensors[variable], site)
        sites.append(site)
    return ProgramReading(reader.build.graph(), body, reader.build.origins, tuple(sites))


class ProgramReader:
    """Goes through a program and builds its graph."""

    def __init__(self, *, accumulates: bool) -> None:
        self.build = GraphBuilder()
        self._facts = KnownFacts()
        self._accumulates = accumulates
        self._numbers: dict[float, int] = {}  # number written into equations -> its tensor

    def body(self, jaxpr: Any, consts: tuple[Any, ...], scope: Scope) -> ReadJaxpr:
        """Read the equations of a jaxpr, whose arguments the scope knows already."""
        for variable, value in zip(jaxpr.constvars, consts, strict=False):
            if is_full(variable):
                scope.tensors[variable] = self._constant(scope, value, variable.aval.shape)
        return ReadJaxpr(jaxpr, consts, tuple(self._step(equation, scope) for equation in jaxpr.eqns))

    def enter(self, inner: Iterable[Any], outer: Iterable[Any], scope: Scope) -> dict[Any, int]:
        """The tensors of the arguments of a jaxpr that is called with these operands."""
        return {
            variable: self.tensor_of(atom, scope)
            for variable, atom in zip(inner, outer, strict=True)
            if is_full(variable)
        }

    def tensor_of(self, atom: Any, scope: Scope) -> int:
        """The tensor of an operand; a literal becomes one."""
        if not is_literal(atom):
            return scope.tensors[atom]
        if atom.aval.shape:
            return self._constant(scope, atom.val, atom.aval.shape)
        number = float(atom.val)
        if number not in self._numbers:
            self._numbers[number] = self._constant(scope, number, ())
        return self._numbers[number]

    def read_by(self, atom: Any, site: int, scope: Scope) -> None:
        """Let a site read an operand, if that is a float32 variable or a number that a dtype may not hold."""
        if is_full(atom) and not (is_literal(atom) and is_exact(atom)):
            self.build.read(self.tensor_of(atom, scope), site)

    def make(self, variable: Any, site: int, scope: Scope) -> None:
        """Let a site make a float32 variable."""
        scope.tensors[variable] = self.build.tensor(site, variable.aval.shape, scope.times)

    def _constant(self, scope: Scope, value: Any, shape: tuple[int, ...]) -> int:
        (site,) = self.build.op(
            scope.name("constant"), "constant", frozen=CONSTANT, role=Role.VARIABLE_READ, origin=scope.origin
        )
        return self.build.tensor(site, shape, 1, constant=constant_of(value), folds=True)

    def _step(self, equation: Any, scope: Scope) -> Step:
        primitive, inside = equation.primitive.name, scope.at(equation)
        if primitive in CALLS:
            return self._call(equation, inside)
        if primitive in CONTROL_FLOW:
            return CONTROL_FLOW[primitive](self, equation, inside)
        if primitive in EACH_BY_ITSELF:
            return self._each_by_itself(equation, inside)
        return self._plain(equation, inside)

    def _call(self, equation: Any, scope: Scope) -> Step:
        """Read what is called as if it stood here."""
        jaxpr, consts = called(equation)
        wanted = {
            inner
            for inner, outer in zip(jaxpr.outvars, equation.outvars, strict=True)
            if outer in scope.results and not is_literal(inner)
        }
        inside = scope._replace(tensors=self.enter(jaxpr.invars, equation.invars, scope), results=frozenset(wanted))
        body = self.body(jaxpr, consts, inside)
        for inner, outer in zip(jaxpr.outvars, equation.outvars, strict=True):
            if is_full(outer):
                scope.tensors[outer] = self.tensor_of(inner, inside)
        passed = (NONE,) * len(equation.invars), (NONE,) * len(equation.outvars)
        return Step(equation, *passed, (body,))

    def _each_by_itself(self, equation: Any, scope: Scope) -> Step:
        """Read an equation that does the same to every operand as one op an operand."""
        sites = []
        operands = equation.invars
        for operand, result in zip(operands, equation.outvars, strict=True):
            site = NONE
            if is_full(result):
                (site,) = self.build.op(
                    scope.name(equation.primitive.name), kind_of(equation), role=scope.role, origin=scope.origin
                )
                self.read_by(operand, site, scope)
                self.make(result, site, scope)
            sites.append(site)
        return Step(equation, tuple(sites), tuple(sites), tensors=self._tensors(operands, scope))

    def _plain(self, equation: Any, scope: Scope) -> Step:
        """Read an equation as one op: with one site, or with two if its result may differ from its operands."""
        facts, operands = self._facts.of(equation), equation.invars
        if True not in facts.operands and True not in facts.results:
            return Step(equation, (NONE,) * len(facts.operands), (NONE,) * len(facts.results))
        name = equation.primitive.name
        split = self._accumulates and name in ACCUMULATING
        sites = self.build.op(
            scope.name(name),
            facts.kind,
            ("operands", "result") if split else ("type",),
            frozen=facts.frozen,
            role=facts.role or scope.role,
            origin=scope.origin,
            work=facts.work * scope.times,
            whole=facts.whole,
            contracts=facts.contracts,
        )
        if split:
            self.build.flow(*sites)
        first, last = sites[0], sites[-1]
        tensors = self._tensors(operands, scope)
        for atom, tensor, its in zip(operands, tensors, facts.operands, strict=True):
            if its and tensor != NONE:
                self.build.read(tensor, first)
            elif its:
                self.read_by(atom, first, scope)
        for variable, its in zip(equation.outvars, facts.results, strict=True):
            if its:
                self.make(variable, last, scope)
        reads, makes = _per_port(sites[:1], facts.operands), _per_port(sites[-1:], facts.results)
        return Step(equation, reads, makes, (), tensors)

    def _tensors(self, operands: Iterable[Any], scope: Scope) -> tuple[int, ...]:
        """Per operand, its tensor."""
        tensors = scope.tensors
        return tuple([NONE if type(atom) is Literal else tensors.get(atom, NONE) for atom in operands])


def _per_port(site: tuple[int, ...], full: tuple[bool, ...]) -> tuple[int, ...]:
    """Per port, the site if it is a float32 array."""
    return site * len(full) if False not in full else tuple([site[0] if its else NONE for its in full])
