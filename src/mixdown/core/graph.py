"""The host-neutral view of a graph: ops with sites, tensors between sites, and ties among sites.

A host describes only what can be painted: the float32 ports of its ops. Tensor lists, loops, calls, fixed types, feeds,
fetches, devices and kernels are all expressed by the fields below. Ops come sorted by function and name, so that a plan
does not depend on the order in which the host lists them.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import NamedTuple


class Role(Enum):
    """What a site is, beyond a port of its op."""

    PLAIN = "plain"  # computes
    CONDUIT = "conduit"  # carries a value into or out of a function: see `stages.soak`
    VARIABLE_READ = "variable read"  # the value of a variable: clear ops next to it do not make it low
    WRITE = "write"  # gives a variable, or what stands for one, its new value
    DERIVATIVE = "derivative"  # computes, as a part of the backward pass
    CONVERSION = "conversion"  # the output of a cast that is already there: follows its consumers for free
    TRUNCATION = "truncation"  # the input of a cast to integers: the last digit decides what comes out


class Site(NamedTuple):
    """The ports of one op that must share a dtype: the thing that is painted."""

    op: int
    attribute: str
    legal: bool  # the op is defined for the low dtype here
    kernel: bool  # the device has a low kernel for it
    role: Role = Role.PLAIN
    whole: bool = False  # makes floats of integers that may be too large for the low dtype


class Op(NamedTuple):
    """One operation with at least one float32 port."""

    name: str
    kind: str
    function: str  # the function it stands in, "" for the outermost graph
    sites: tuple[int, ...]
    frozen: str | None = None  # why its types must not change (fetched, on another device, ...), if so
    position: int = 0  # where the host listed it
    compiled: bool = False  # a compiler fuses it with its neighbours, so that not every value goes through memory

    @property
    def label(self) -> str:
        """The name for people."""
        return f"{self.name} in {self.function}" if self.function else self.name


Shape = tuple[int | None, ...] | None
"""Sizes of dimensions; None where they are not known."""


class ShapesOnDemand(Sequence[Shape]):
    """Shapes that are inferred only when asked for."""

    @abstractmethod
    def expect(self, tensors: Iterable[int]) -> None:
        """Announce which shapes will be asked for, so that they are inferred together; others may take long."""


class Constant(NamedTuple):
    """The numbers of a value that never changes, as far as rounding is concerned; Inf and NaN are left out."""

    smallest: float  # the number nearest to zero that is not zero, 0.0 if there is none
    largest: float  # the number farthest from zero
    whole: bool  # all are integers
    size: int = 1  # how many there are
    divides: bool = False  # whoever reads it divides by it


class Tensor(NamedTuple):
    """One float32 value: the site that makes it and the sites that read it. A cast may stand on it."""

    name: str
    site: int
    consumers: tuple[int, ...]
    folds: bool = False  # it is a constant: a cast of it is done once, not in every run
    constant: Constant | None = None  # what it holds, if it is a constant and the host looked
    times: int = 1  # how often it is made in one run: in a loop, as often as that goes round


class Agreement(Enum):
    """How tied sites that disagree are brought together."""

    SPREAD = "spread"  # full if any is denied, else low if any is low (the elements of a tensor list)
    UNANIMOUS = "unanimous"  # low only if all are low (loop-carried values, call signatures)


class Tie(NamedTuple):
    """Sites that must get the same paint."""

    sites: tuple[int, ...]
    agreement: Agreement
    frozen: str | None = None  # why it must stay full (a list handle that leaves the graph, ...), if so
    followers: tuple[int, ...] = ()  # sites that take the paint of the others and do not influence it


class Merged(NamedTuple):
    """An op in the place of several."""

    op: int
    parts: tuple[str, ...]  # the names of those that it replaces, together with its gradient
    tensor: int  # what it reads
    moves: int  # how many times more the others moved a value of that size


@dataclass(frozen=True)
class Graph:
    """Everything the planner knows about a graph."""

    ops: tuple[Op, ...]
    sites: tuple[Site, ...]
    tensors: tuple[Tensor, ...]
    ties: tuple[Tie, ...] = ()
    flows: tuple[tuple[int, int], ...] = ()
    """Hidden wires from site to site on which no cast can stand: through a tensor list, or into a function."""
    shapes: Sequence[Shape] = field(default=(), compare=False)
    """Per tensor, its shape, possibly inferred only when asked for. Empty if the host knows none."""
    work: Sequence[int] = field(default=(), compare=False)
    """Per op, how many multiplications and additions a matrix product or convolution takes, 0 for others; likewise."""
    contracts: Sequence[bool] = field(default=(), compare=False)
    """Per op, False for a matrix product that sums over nothing, such as an outer product; empty if none does that."""

    merged: tuple[Merged, ...] = ()
    """Ops that the host has put in the place of several of the program's own."""

    @cached_property
    def successors(self) -> list[list[int]]:
        """Per site, the sites that its value flows to."""
        out: list[list[int]] = [[] for _ in self.sites]
        for tensor in self.tensors:
            out[tensor.site].extend(tensor.consumers)
        for source, target in self.flows:
            out[source].append(target)
        return out

    @cached_property
    def predecessors(self) -> list[list[int]]:
        """Per site, the sites whose values flow to it."""
        out: list[list[int]] = [[] for _ in self.sites]
        for source, targets in enumerate(self.successors):
            for target in targets:
                out[target].append(source)
        return out

    @cached_property
    def dependencies(self) -> list[list[int]]:
        """Per site, the sites whose values its op depends on; a conduit depends only on the sites that feed it."""
        out: list[list[int]] = [[] for _ in self.sites]
        for op in self.ops:
            if len(op.sites) == 1:
                out[op.sites[0]] = self.predecessors[op.sites[0]]
                continue
            together = [source for site in op.sites for source in self.predecessors[site]]
            for site in op.sites:
                carries = self.sites[site].role is Role.CONDUIT
                out[site] = self.predecessors[site] if carries else together
        return out

    @cached_property
    def touched(self) -> list[list[int]]:
        """Per site, the tensors that it makes or reads, one as often as it does."""
        out: list[list[int]] = [[] for _ in self.sites]
        for index, tensor in enumerate(self.tensors):
            for site in (tensor.site, *tensor.consumers):
                out[site].append(index)
        return out

    @cached_property
    def is_compiled(self) -> bool:
        """Whether a compiler fuses any of it."""
        return any(op.compiled for op in self.ops)

    @cached_property
    def kinds(self) -> list[str]:
        """Per site, the kind of its op."""
        return [self.ops[site.op].kind for site in self.sites]

    def neighbours(self, sites: Iterable[int]) -> dict[int, list[int]]:
        """For each of these sites, those before and after it."""
        return {site: self.predecessors[site] + self.successors[site] for site in sites}

    def label(self, site: int) -> str:
        """The name of a site for people: its op, and the attribute where the op has several."""
        op = self.ops[self.sites[site].op]
        return f"{op.label}.{self.sites[site].attribute}" if len(op.sites) > 1 else op.label


Links = Sequence[Sequence[int]] | Mapping[int, Sequence[int]]
"""Per site, the sites next to it."""


def walk(roots: Iterable[int], neighbours: Links, enter: Sequence[bool]) -> dict[int, int]:
    """Every site that can be reached from the roots by entering only permitted sites, with the site before it."""
    queue = list(roots)
    reached: dict[int, int] = {}
    started = set(queue)
    for here in queue:
        for there in neighbours[here]:
            if enter[there] and there not in reached and there not in started:
                reached[there] = here
                queue.append(there)
    return reached
