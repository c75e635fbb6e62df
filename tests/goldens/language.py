"""The language of the goldens: a graph in a few lines of text. Start with `parse`.

h = MatMul(x, w)              an op and what it reads; a name that no line defines is an input of the graph
b = BatchNorm(h, U:s)         site U of b reads s; inputs without a site are read by site T
c = Relu(b.U)                 reads the output of site U of b
illegal b.U                   a mark on a site, or on all sites of an op; see MARKS
frozen h: it is fetched       h keeps its types, for this reason
spread a b: it escapes        a tie; with a reason, it is frozen
unanimous m n follow i        a tie with followers
flow a -> b                   a value flows from a to b without a tensor that could be cast
policy rules=tf-2.21          fields of the policy; the strategy is grappler unless it is given
shape h 32 64                 the shape of the output of h; ? is an unknown dimension
compiled                      all ops are compiled by XLA
work h 1000                   the number of operations of the product h
outer h                       h is a product that sums over nothing
constant c -1e9               c holds these numbers in every run; `divisor` if its readers divide by them
deny name=enc                 an override; likewise allow, infer, clear, keep
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from mixdown.core import Agreement, Graph, Op, Policy, Role, Site, Tensor, Tie
from mixdown.core.constants import described
from mixdown.core.graph import Constant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MARKS: dict[str, dict[str, Any]] = {
    "illegal": {"legal": False},
    "kernelless": {"kernel": False},
    "reads_variable": {"role": Role.VARIABLE_READ},
    "conversion": {"role": Role.CONVERSION},
    "conduit": {"role": Role.CONDUIT},
    "truncation": {"role": Role.TRUNCATION},
    "derivative": {"role": Role.DERIVATIVE},
    "whole": {"whole": True},
}
OUTSIDE = "Placeholder"
DEFINITION = re.compile(r"(\w+) = (\w+)\((.*)\)")


@dataclass
class Script:
    """What the lines of a case say, before names are resolved."""

    kinds: dict[str, str] = field(default_factory=dict)
    inputs: dict[str, list[tuple[str, str]]] = field(default_factory=dict)  # the reading attribute, the value's name
    marks: list[tuple[str, str]] = field(default_factory=list)
    frozen: dict[str, str] = field(default_factory=dict)
    ties: list[tuple[Agreement, list[str], list[str], str | None]] = field(default_factory=list)
    flows: list[tuple[str, str]] = field(default_factory=list)
    shapes: dict[str, tuple[int | None, ...]] = field(default_factory=dict)
    work: dict[str, int] = field(default_factory=dict)
    outer: set[str] = field(default_factory=set)
    constants: dict[str, Constant] = field(default_factory=dict)
    compiled: bool = False
    policy: Policy = field(default_factory=lambda: Policy(strategy="grappler"))

    def read(self, line: str) -> None:
        """Understand one line."""
        if found := DEFINITION.fullmatch(line):
            self._define(*found.groups())
        else:
            verb, _, rest = line.partition(" ")
            verbs[verb](self, verb, rest)

    def _define(self, name: str, kind: str, arguments: str) -> None:
        self.kinds[name] = kind
        words = [word.strip().rpartition(":") for word in arguments.split(",") if word.strip()]
        self.inputs[name] = [(attribute or "T", value) for attribute, _, value in words]

    def mark(self, verb: str, rest: str) -> None:
        """Note a mark on sites."""
        self.marks.extend((verb, target) for target in rest.split())

    def freeze(self, _verb: str, rest: str) -> None:
        """Freeze an op."""
        name, _, why = rest.partition(": ")
        self.frozen[name] = why

    def tie(self, verb: str, rest: str) -> None:
        """Tie sites."""
        names, _, why = rest.partition(": ")
        sites, _, followers = names.partition(" follow ")
        self.ties.append((Agreement(verb), sites.split(), followers.split(), why or None))

    def flow(self, _verb: str, rest: str) -> None:
        """Lay a hidden wire."""
        source, _, target = rest.partition(" -> ")
        self.flows.append((source, target))

    def set_policy(self, _verb: str, rest: str) -> None:
        """Choose fields of the policy."""
        fields: dict[str, Any] = dict(pair.split("=") for pair in rest.split())
        self.policy = Policy(**{"strategy": "grappler", **fields})

    def shape(self, _verb: str, rest: str) -> None:
        """Note the shape of a value."""
        name, *sizes = rest.split()
        self.shapes[full(name)] = tuple(None if size == "?" else int(size) for size in sizes)

    def note_work(self, _verb: str, rest: str) -> None:
        """Note the arithmetic of a product."""
        name, operations = rest.split()
        self.work[name] = int(operations)

    def note_outer(self, _verb: str, rest: str) -> None:
        """Note products that sum over nothing."""
        self.outer.update(rest.split())

    def note_constant(self, verb: str, rest: str) -> None:
        """Note the numbers of a constant, and whether its readers divide by it."""
        name, *numbers = rest.split()
        self.constants[full(name)] = described(np.array(numbers, np.float32))._replace(divides=verb == "divisor")

    def compile(self, _verb: str, _rest: str) -> None:
        """Let all ops be compiled."""
        self.compiled = True

    def override(self, verb: str, rest: str) -> None:
        """Override categories."""
        words = rest.split()
        selectors = dict(word.split("=") for word in words if "=" in word)
        change = getattr(self.policy, f"with_{verb}")
        self.policy = change(*(word for word in words if "=" not in word), **selectors)


verbs: dict[str, Callable[[Script, str, str], None]] = {
    **dict.fromkeys(MARKS, Script.mark),
    **dict.fromkeys(("spread", "unanimous"), Script.tie),
    **dict.fromkeys(("allow", "deny", "infer", "clear", "keep"), Script.override),
    "frozen": Script.freeze,
    "flow": Script.flow,
    "policy": Script.set_policy,
    "shape": Script.shape,
    "compiled": Script.compile,
    "work": Script.note_work,
    "outer": Script.note_outer,
    **dict.fromkeys(("constant", "divisor"), Script.note_constant),
}


def parse(lines: Iterable[str]) -> tuple[Graph, Policy]:
    """The graph and the policy of a case; ops come sorted by name, as every host gives them."""
    script = Script()
    for line in lines:
        if line.strip() and not line.startswith("#"):
            script.read(line.strip())
    values = [value.partition(".")[0] for inputs in script.inputs.values() for _, value in inputs]
    for value in values:
        script.kinds.setdefault(value, OUTSIDE)
    return _build(script), script.policy


def _build(script: Script) -> Graph:
    numbers = {site: number for number, site in enumerate(_site_names(script))}
    sites = {
        number: Site(_op(script, site), site.partition(".")[2], legal=True, kernel=True)
        for site, number in numbers.items()
    }
    for mark, target in script.marks:
        for number in _targets(numbers, target):
            sites[number] = sites[number]._replace(**MARKS[mark])
    tensors = tuple(_tensors(script, numbers))
    return Graph(
        ops=tuple(_ops(script, numbers)),
        sites=tuple(sites.values()),
        tensors=tensors,
        work=tuple(script.work.get(name, 0) for name in sorted(script.kinds)),
        contracts=tuple(name not in script.outer for name in sorted(script.kinds)),
        shapes=tuple(script.shapes.get(full(tensor.name)) for tensor in tensors),
        ties=tuple(
            Tie(_all(numbers, members), agreement, why, _all(numbers, followers))
            for agreement, members, followers, why in script.ties
        ),
        flows=tuple((numbers[full(source)], numbers[full(target)]) for source, target in script.flows),
    )


def full(name: str) -> str:
    """The name of a site: its attribute is T where nothing is said."""
    return name if "." in name else f"{name}.T"


def _site_names(script: Script) -> list[str]:
    """Every site of the case, sorted by op: those that inputs, outputs and marks speak of, and T of the others."""
    named = {f"{op}.{attribute}" for op, inputs in script.inputs.items() for attribute, _ in inputs}
    named |= {full(value) for inputs in script.inputs.values() for _, value in inputs}
    lonely = script.kinds.keys() - {name.partition(".")[0] for name in named}
    return sorted(named | {full(name) for name in lonely})


def _op(script: Script, site: str) -> int:
    return sorted(script.kinds).index(site.partition(".")[0])


def _targets(numbers: dict[str, int], target: str) -> list[int]:
    return [number for site, number in numbers.items() if target in (site, site.partition(".")[0])]


def _all(numbers: dict[str, int], names: Iterable[str]) -> tuple[int, ...]:
    return tuple(sorted(numbers[full(name)] for name in names))


def _ops(script: Script, numbers: dict[str, int]) -> Iterable[Op]:
    order = list(script.kinds)
    for name in sorted(script.kinds):
        sites = tuple(_targets(numbers, name))
        yield Op(
            name, script.kinds[name], "", sites, script.frozen.get(name), order.index(name), compiled=script.compiled
        )


def _tensors(script: Script, numbers: dict[str, int]) -> Iterable[Tensor]:
    readers: dict[str, list[int]] = {}
    for op in sorted(script.inputs):
        for attribute, value in script.inputs[op]:
            readers.setdefault(full(value), []).append(numbers[f"{op}.{attribute}"])
    for value, consumers in readers.items():
        constant = script.constants.get(value)
        yield Tensor(value.removesuffix(".T"), numbers[value], tuple(consumers), constant is not None, constant)
