"""Random programs: plain data that hypothesis draws and shrinks. Start with `Program`; `perform` carries one out.

A step names a verb and a number, whose digits say which of the latest values of the right form are read: zero is the
newest. So a program of zeros is a chain, and shrinking goes there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tests.reliability.fuzz_verbs import LOSS, TOTAL, VERBS, Verb

BASE = 3  # of the digits in a step's number
Block = Callable[[Any], Any]


@dataclass(frozen=True)
class Say:
    """Carry out a verb."""

    verb: str
    number: int = 0


@dataclass(frozen=True)
class Read:
    """Read the variable."""


@dataclass(frozen=True)
class Store:
    """Add a square to the variable."""

    number: int = 0


@dataclass(frozen=True)
class Call:
    """Call a function of its own; like all blocks it is given the newest rows and yields the newest it makes."""

    body: tuple[Step, ...]


@dataclass(frozen=True)
class Cond:
    """Branch by a truth value: one that is given, or one that depends on floats."""

    form: str  # "flag" or "guess"
    yes: tuple[Step, ...]
    no: tuple[Step, ...]


@dataclass(frozen=True)
class Case:
    """Branch by an integer."""

    branches: tuple[tuple[Step, ...], ...]


@dataclass(frozen=True)
class Loop:
    """Repeat a body as often as an integer says, which is 0 to 3 times."""

    body: tuple[Step, ...]


@dataclass(frozen=True)
class Map:
    """Carry out a body on both layers of a cube."""

    body: tuple[Step, ...]


Step = Say | Read | Store | Call | Cond | Case | Loop | Map


@dataclass(frozen=True)
class Program:
    """Steps, and which of the latest value of every form is returned."""

    steps: tuple[Step, ...]
    back: int = 0


class Stage(Protocol):
    """Where a program is carried out: in TensorFlow, or in balls."""

    def say(self, label: str, verb: Verb, inputs: Sequence[Any]) -> list[Any]: ...
    def read(self, label: str) -> Any: ...
    def store(self, label: str, value: Any) -> None: ...
    def call(self, body: Block, rows: Any) -> Any: ...
    def cond(self, flag: Any, yes: Block, no: Block, rows: Any) -> Any: ...
    def case(self, index: Any, branches: Sequence[Block], rows: Any) -> Any: ...
    def loop(self, count: Any, body: Block, rows: Any) -> Any: ...
    def map(self, body: Block, cube: Any) -> Any: ...


class Desk:
    """The values made so far, by form, newest last."""

    def __init__(self, values: Mapping[str, Sequence[Any]]) -> None:
        self.values = {form: list(known) for form, known in values.items()}

    def pick(self, form: str, digit: int = 0) -> Any:
        """The digit-th newest value of a form; counting goes round if there are not so many."""
        known = self.values[form]
        return known[-1 - digit % len(known)]

    def picks(self, forms: Iterable[str], number: int) -> list[Any]:
        """One value for each form, by the digits of a number."""
        return [self.pick(form, number // BASE**place) for place, form in enumerate(forms)]

    def put(self, forms: Sequence[str], values: Sequence[Any]) -> None:
        """Remember new values."""
        for form, value in zip(forms, values, strict=True):
            self.values[form].append(value)


def perform(steps: Sequence[Step], desk: Desk, stage: Stage, path: str = "s", first: int = 0) -> None:
    """Carry out steps on a stage. Ops get names that tell their step: `sx3x0x1` is the second in a block of step 3."""
    for index, step in enumerate(steps, first):
        label = f"{path}x{index}"
        match step:
            case Say(name, number):
                verb = VERBS[name]
                desk.put(verb.gives, stage.say(label, verb, desk.picks(verb.takes, number)))
            case Read():
                desk.put(["square"], [stage.read(label)])
            case Store(number):
                stage.store(label, desk.pick("square", number))
            case _:
                form, value = _block(step, desk, stage, label)
                desk.put([form], [value])


def _block(step: Step, desk: Desk, stage: Stage, label: str) -> tuple[str, Any]:
    """Carry out a step that has steps inside; returns the form and the value it yields."""

    def inner(steps: Sequence[Step], branch: int = 0) -> Block:
        def body(rows: Any) -> Any:
            own = Desk(desk.values)
            own.put(["rows"], [rows])
            perform(steps, own, stage, f"{label}x{branch}")
            return own.pick("rows")

        return body

    rows = desk.pick("rows")
    match step:
        case Call(body):
            return "rows", stage.call(inner(body), rows)
        case Cond(form, yes, no):
            return "rows", stage.cond(desk.pick(form), inner(yes), inner(no, 1), rows)
        case Case(branches):
            bodies = [inner(branch, index) for index, branch in enumerate(branches)]
            return "rows", stage.case(desk.pick("count"), bodies, rows)
        case Loop(body):
            return "rows", stage.loop(desk.pick("count"), inner(body), rows)
        case Map(body):
            return "cube", stage.map(inner(body), desk.pick("cube"))
    raise AssertionError(step)


def results(program: Program, desk: Desk, stage: Stage, first: int = 0) -> dict[str, Any]:
    """Carry out a program from a step on: a late value of every form, and the sum of all floats in them as `loss`."""
    perform(program.steps[first:], desk, stage, first=first)
    out = {form: desk.pick(form, program.back) for form in desk.values if desk.values[form]}
    sums = [stage.say(f"total{form}", TOTAL[form], [out[form]])[0] for form in TOTAL if form in out]
    (out["loss"],) = stage.say("loss", LOSS, sums)
    return out
