"""Programs in balls: where every result of a run must lie, by the plan that the run followed. Start with `Reference`.

Which ops round to 16 bits is what the plan says and nothing else: a step none of whose ops the plan made low computes
in float32, and widens its ball thousands of times less. A plan without low ops leaves float32's own balls.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from tests.reliability.fuzz_balls import FORMATS, Ball, exactly
from tests.reliability.fuzz_discrete import Flags, UndecidedError, Unknowable
from tests.reliability.fuzz_laws import Polynomial, Pull
from tests.reliability.fuzz_programs import Block, Desk, Program, results
from tests.reliability.fuzz_traced import dtype_of
from tests.reliability.fuzz_verbs import VERBS, Verb

from mixdown.core import Paint, Plan
from mixdown.core.graph import Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

LABEL = re.compile(r"(?<![A-Za-z0-9])(s(?:x\d+)+|total[a-z]+|loss)(?=[_/]|$)")
ELSEWHERE = ""  # the label of what belongs to no step: what hands values to blocks and back, and adds gradients up
FULL = FORMATS["float32"]


@dataclass(frozen=True)
class Lowered:
    """Which steps a plan made low, in part at least, and to which dtype."""

    dtype: str
    labels: frozenset[str]

    def form(self, label: str) -> Any:
        """The format that a step computes in."""
        return FORMATS[self.dtype] if label in self.labels else FULL


class Everything(frozenset[str]):
    """All labels there are."""

    __slots__ = ()

    def __contains__(self, _label: object) -> bool:
        return True


def lowered(plans: Iterable[Plan], dtype: str) -> Lowered:
    """What plans made low.

    Lists of tensors carry values of many steps through a loop, so one that is low makes all steps count as low. What
    carries a value across a function's boundary rounds only what a low op made or what low ops alone read, so it does
    not count.
    """
    ops = [
        plan.graph.ops[plan.graph.sites[site].op]
        for plan in plans
        for site, paint in enumerate(plan.paints)
        if paint is Paint.LOW and plan.graph.sites[site].role is not Role.CONDUIT
    ]
    if any(op.kind.startswith(("TensorList", "EmptyTensorList")) for op in ops):
        return Lowered(dtype, Everything())
    return Lowered(dtype, frozenset(_label(op.name) for op in ops))


def _label(name: str) -> str:
    found = LABEL.findall(name)
    return found[-1] if found else ELSEWHERE


class Reference:
    """Carries out a program in balls, one step after the other, and remembers the way back."""

    def __init__(self, low: Lowered, variable: Any) -> None:
        self.low = low
        self.handle = exactly(variable)  # stands for the variable in gradients, whatever its value
        self.variable = self.handle
        self._way: list[tuple[Sequence[Any], Sequence[Any], Pull]] = []

    def say(self, label: str, verb: Verb, inputs: Sequence[Any]) -> list[Any]:
        form = self.low.form(label)
        rounded = [value.rounded(form) if isinstance(value, Ball) else value for value in inputs]
        outputs, pull = verb.law(verb.truth or verb.run, rounded, form)
        self._way.append((inputs, outputs, pull))
        return outputs

    def read(self, label: str) -> Ball:
        value = self.variable.rounded(self.low.form(label))
        self._way.append(([self.handle], [value], list))
        return value

    def store(self, label: str, value: Ball) -> None:
        (self.variable,), _ = Polynomial()(tf.add, [self.variable, value], self.low.form(label))

    def call(self, body: Block, rows: Ball) -> Ball:
        return self._handed(body(self._handed(rows)))

    def cond(self, flag: Any, yes: Block, no: Block, rows: Ball) -> Ball:
        if isinstance(flag, Flags) and not bool(flag.sure):
            raise UndecidedError
        return self.call(yes if bool(flag.values if isinstance(flag, Flags) else flag) else no, rows)

    def case(self, index: Any, branches: Sequence[Block], rows: Ball) -> Ball:
        chosen = int(index) if int(index) < len(branches) else -1
        return self.call(branches[chosen], rows)

    def loop(self, count: Any, body: Block, rows: Ball) -> Ball:
        for _ in range(int(count)):
            rows = self.call(body, rows)
        return self._handed(rows)

    def map(self, body: Block, cube: Ball) -> Ball:
        layers = self.say(ELSEWHERE, VERBS["unstack"], [cube])
        return self.say(ELSEWHERE, VERBS["stack"], [self.call(body, layer) for layer in layers])[0]

    def _handed(self, value: Ball) -> Ball:
        return self.say(ELSEWHERE, VERBS["identity rows"], [value])[0]

    def gradients(self, loss: Ball, sources: Mapping[str, Ball]) -> dict[str, Ball]:
        """The balls of the derivatives of a sum by each of the sources."""
        found: dict[int, Ball] = {id(loss): exactly(np.ones_like(loss.middle))}
        for inputs, outputs, pull in reversed(self._way):
            if any(id(output) in found for output in outputs):
                upstream = [_gradient(found, output) for output in outputs if isinstance(output, Ball)]
                for value, gradient in zip(inputs, pull(upstream), strict=True):
                    if gradient is not None:
                        found[id(value)] = self._added(found.get(id(value)), gradient)
        return {name: _gradient(found, source) for name, source in sources.items()}

    def _added(self, before: Ball | None, more: Ball) -> Ball:
        form = self.low.form(ELSEWHERE)
        if before is None:
            return more.rounded(form)
        return Polynomial()(tf.add, [before, more], form)[0][0]


def _gradient(found: Mapping[int, Ball], value: Ball) -> Ball:
    return found.get(id(value)) or exactly(np.zeros_like(value.middle))


@dataclass(frozen=True)
class Task:
    """What was run: a program, what it was given, and what else happened."""

    program: Program
    inputs: Mapping[str, Any]
    start: Any  # what was in the variable
    derived: bool  # whether the loss was derived by all that the program was given
    updated: bool = False  # whether the square that the program yields was added to the variable in the end


def expected(task: Task, low: Lowered) -> dict[str, Any]:
    """Where every result of a task must lie.

    Raises:
        OutOfRangeError: a value may overflow.
        UndecidedError: the way through the program depends on rounding.
    """
    reference = Reference(low, task.start)
    values = {form: _known(form, value) for form, value in task.inputs.items()}
    desk = Desk({form: [value] for form, value in values.items()} | {"sizes": [], "winner": []})
    out = results(task.program, desk, reference)
    if task.derived:
        sources = {form: value for form, value in values.items() if isinstance(value, Ball)}
        gradients = reference.gradients(out["loss"], sources | {"variable": reference.handle})
        out |= {f"by {name}": gradient for name, gradient in gradients.items()}
    if task.updated:
        reference.store(ELSEWHERE, out["square"])
    form = low.form(ELSEWHERE)
    out = {name: value.rounded(form) if isinstance(value, Ball) else value for name, value in out.items()}
    return out | {"variable": reference.variable}


def _known(form: str, value: Any) -> Any:
    if dtype_of(form).startswith("float"):
        return exactly(value)
    if form in ("flags", "guess"):
        return Flags(np.asarray(value), np.ones_like(value, bool))
    return value


def disagreements(found: Mapping[str, Any], balls: Mapping[str, Any]) -> list[str]:
    """The results that do not lie where they must."""
    return [f"{name}: {_apart(found[name], balls[name])}" for name in found if not _agrees(found[name], balls[name])]


def _apart(computed: Any, promised: Any) -> str:
    if not isinstance(promised, Ball):
        return f"computed {computed}, promised {promised}"
    off = np.abs(np.asarray(computed, np.float64) - promised.middle)
    worst = np.argmax(off / (promised.radius + 1e-300))
    values = [each.flat[worst] for each in (promised.middle, off, promised.radius)]
    return "{} is off by {}, promised {}".format(*values)


def _agrees(computed: Any, promised: Any) -> bool:
    match promised:
        case Unknowable():
            return True
        case Flags(values, sure):
            return bool(np.all(~sure | (np.asarray(computed) == values)))
        case Ball():
            return promised.holds(computed)
    return bool(np.all(np.asarray(computed) == np.asarray(promised)))
