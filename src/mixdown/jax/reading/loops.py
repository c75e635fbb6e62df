"""Loops and conditions: every value that one passes on is a site of its own. Start with `CONTROL_FLOW`.

State that a loop carries, see `mixdown.jax.reading.state`, is read and written instead: two sites that stay float32 and
between which nothing flows, so that what computes the new value is known as an update.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from mixdown.core import Role
from mixdown.jax.reading.builder import NONE, GraphBuilder
from mixdown.jax.reading.equations import is_full, opened
from mixdown.jax.reading.scope import ReadJaxpr, Scope, Step
from mixdown.jax.reading.state import Loop, state_of

STATE = "it is state that a loop carries from round to round"
ROUNDS = 10
"""How often a loop counts that goes on until a condition holds: nobody knows."""


class Entering(Protocol):
    """What of a reader loops need."""

    build: GraphBuilder

    def body(self, jaxpr: Any, consts: tuple[Any, ...], scope: Scope) -> ReadJaxpr:
        """Read the equations of a jaxpr."""

    def enter(self, inner: Any, outer: Any, scope: Scope) -> dict[Any, int]:
        """The tensors of the arguments of a jaxpr."""

    def read_by(self, atom: Any, site: int, scope: Scope) -> None:
        """Let a site read an operand."""

    def make(self, variable: Any, site: int, scope: Scope) -> None:
        """Let a site make a variable."""


def scan(reader: Entering, equation: Any, scope: Scope) -> Step:
    """A loop of known length: constants, carried values, and slices of what it goes through."""
    params = equation.params
    jaxpr, consts = opened(params["jaxpr"])
    first, carried = params["num_consts"], params["num_carry"]
    inside = scope._replace(tensors={}, times=scope.times * params["length"], results=frozenset())
    loop = Loop(jaxpr, first, carried)
    ports = _Ports(reader, scope, inside)
    state = state_of(loop, equation, scope)
    words = ["constant"] * first + ["carry"] * carried + ["slice"] * (len(jaxpr.invars) - first - carried)
    reads = [
        ports.enter(variable, atom, word, is_state=number - first in state and word == "carry")
        for number, (variable, atom, word) in enumerate(zip(jaxpr.invars, equation.invars, words, strict=True))
    ]
    body = reader.body(jaxpr, consts, _with_state(inside, loop, state))
    makes = []
    for number, (inner, outer) in enumerate(zip(jaxpr.outvars, equation.outvars, strict=True)):
        site = reads[first + number] if number < carried else ports.new(outer, "stack")
        makes.append(ports.leave(inner, outer, site, is_state=number in state))
    return Step(equation, tuple(reads), tuple(makes), (body,))


def while_loop(reader: Entering, equation: Any, scope: Scope) -> Step:
    """A loop until a condition holds: the constants of condition and body, and carried values that both read."""
    params = equation.params
    tests, works = params["cond_nconsts"], params["body_nconsts"]
    (test, test_consts), (work, work_consts) = opened(params["cond_jaxpr"]), opened(params["body_jaxpr"])
    inside = scope._replace(tensors={}, times=scope.times * ROUNDS, results=frozenset())
    testing = inside._replace(tensors={})
    loop = Loop(work, works, len(work.outvars))
    ports, state, reads = _Ports(reader, scope, inside), state_of(loop, equation, scope, skip=tests), []
    for number, atom in enumerate(equation.invars[:tests]):
        reads.append(_Ports(reader, scope, testing).enter(test.invars[number], atom, "constant"))
    for number, (variable, atom) in enumerate(zip(work.invars, equation.invars[tests:], strict=True)):
        carries = number >= works
        word, is_state = "carry" if carries else "constant", carries and number - works in state
        reads.append(ports.enter(variable, atom, word, is_state=is_state))
        if carries and is_full(variable):
            testing.tensors[test.invars[tests + number - works]] = inside.tensors[variable]
    bodies = (
        reader.body(test, test_consts, testing),
        reader.body(work, work_consts, _with_state(inside, loop, state)),
    )
    makes = [
        ports.leave(inner, outer, site, is_state=number in state)
        for number, (inner, outer, site) in enumerate(
            zip(work.outvars, equation.outvars, reads[tests + works :], strict=True)
        )
    ]
    return Step(equation, tuple(reads), tuple(makes), bodies)


def cond(reader: Entering, equation: Any, scope: Scope) -> Step:
    """A choice among branches: they read what they are given, and what they yield has one dtype."""
    ports = _Ports(reader, scope, scope)
    makes = [ports.new(outer, "branch") for outer in equation.outvars]
    bodies = []
    for branch in equation.params["branches"]:
        jaxpr, consts = opened(branch)
        inside = scope._replace(tensors=reader.enter(jaxpr.invars, equation.invars[1:], scope), results=frozenset())
        bodies.append(reader.body(jaxpr, consts, inside))
        for inner, site in zip(jaxpr.outvars, makes, strict=True):
            if site != NONE:
                reader.read_by(inner, site, inside)
    for outer, site in zip(equation.outvars, makes, strict=True):
        if site != NONE:
            reader.make(outer, site, scope)
    return Step(equation, (NONE,) * len(equation.invars), tuple(makes), tuple(bodies))


CONTROL_FLOW: dict[str, Callable[[Any, Any, Scope], Step]] = {"scan": scan, "while": while_loop, "cond": cond}
"""Primitive -> how it is read."""


class _Ports:
    """Makes the sites through which values go into a loop and out of it."""

    def __init__(self, reader: Entering, outside: Scope, inside: Scope) -> None:
        self.reader, self.outside, self.inside = reader, outside, inside

    def new(self, variable: Any, word: str) -> int:
        """A site for a value that leaves, or `NONE`."""
        if not is_full(variable):
            return NONE
        kind = "branch" if word == "branch" else "carry"
        return self.reader.build.conduit(self.outside.name(word), kind, origin=self.outside.origin)

    def enter(self, variable: Any, atom: Any, word: str, *, is_state: bool = False) -> int:
        """A site that passes an operand on to a variable of the body."""
        site = self._state(word, Role.VARIABLE_READ) if is_state and is_full(variable) else self.new(variable, word)
        if site != NONE:
            self.reader.read_by(atom, site, self.outside)
            self.reader.make(variable, site, self.inside)
        return site

    def leave(self, inner: Any, outer: Any, site: int, *, is_state: bool) -> int:
        """The site that passes a value of the body on to a result: given, unless it writes state."""
        if not is_full(outer):
            return NONE
        if is_state:
            site = self._state("new carry", Role.WRITE)
        self.reader.read_by(inner, site, self.inside)
        self.reader.make(outer, site, self.outside)
        return site

    def _state(self, word: str, role: Role) -> int:
        name, origin = self.outside.name(word), self.outside.origin
        return self.reader.build.op(name, "carry", frozen=STATE, role=role, origin=origin)[0]


def _with_state(inside: Scope, loop: Loop, state: frozenset[int]) -> Scope:
    """The scope of a body that knows which of its variables are state: loops inside it may carry them on."""
    read = [loop.jaxpr.invars[loop.first + number] for number in state]
    written = [loop.jaxpr.outvars[number] for number in state]
    arguments = frozenset(inside.tensors[variable] for variable in read if variable in inside.tensors)
    return inside._replace(arguments=inside.arguments | arguments, results=frozenset(written))
