"""What a report holds: frozen dataclasses that are written to JSON and read back equal. Start with `ReportData`.

The functions that render, compare and explain reports take these; `mixdown.reports.report` puts them on one class.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from operator import add
from typing import Any, Self

from mixdown.core.pricing.effort import Effort
from mixdown.errors import ReportError
from mixdown.rules.layer_names import layers
from mixdown.scaling import StepRecord
from mixdown.tuning.memory import Trial
from mixdown.untrusted.typed import read_document

SCHEMA = "mixdown-report/1"
"""Name and version of the JSON that `to_json` writes; `from_json` reads this one only."""


@dataclass(frozen=True)
class SiteRow:
    """One site of an op (ports that must have the same dtype): its dtype after the rewrite, and why."""

    attribute: str
    dtype: str  # after the rewrite; before, it was float32
    category: str
    stage: str
    reason: str
    because: tuple[int, ...] = ()  # indices of the ops that are the cause,
    because_of: tuple[int, ...] = ()  # and which site of each


@dataclass(frozen=True)
class OpRow:
    """One op with float32 ports."""

    name: str
    kind: str
    function: str  # the function it stands in, "" for the outermost graph
    sites: tuple[SiteRow, ...]
    inputs: tuple[int, ...] = ()  # indices of the ops whose float32 values it reads
    source: str = ""  # the user's line that made it, if the graph records it
    flops: int = 0  # of a matrix product or convolution: its multiplications and additions
    bytes: int = 0  # that it moves in float32

    @property
    def label(self) -> str:
        """Its name, with the function that it is in."""
        return f"{self.name} in {self.function}" if self.function else self.name


@dataclass(frozen=True)
class CastRow:
    """One cast that the rewrite inserts."""

    tensor: str
    op: int  # index of the op whose output it converts
    to: str
    bytes: int | None  # read and written, together; None if the shape is not known


@dataclass(frozen=True)
class MergedRow:
    """One op that is run in place of several of the program, or a variance that is computed in one pass with a mean."""

    op: int
    parts: tuple[str, ...]  # the names of those; of a variance, the one that squared the differences from the mean


@dataclass(frozen=True)
class Advice:
    """A dimension of a layer that makes Tensor Cores slow."""

    layer: str
    dimension: str  # "batch size", "input size", ...
    size: int
    better: int  # the nearest size that does not
    ops: tuple[str, ...] = ()  # the 16-bit ops that have it


@dataclass(frozen=True)
class Totals:
    """How many ops there are, how many of them run in 16 bits, the casts behind them, and how much work they do."""

    ops: int = 0
    low_ops: int = 0
    casts: int = 0
    bytes: int = 0  # of the casts whose size is known
    unsized_casts: int = 0
    flops: int = 0
    low_flops: int = 0
    float32_bytes: int = 0

    def __add__(self, other: Self) -> Self:
        return type(self)(*map(add, vars(self).values(), vars(other).values()))


@dataclass(frozen=True)
class GraphReport:
    """One function, session or graph."""

    name: str
    kind: str  # "function", "session" or "graph"
    low: str  # the 16-bit dtype
    rewritten: bool
    reason: str  # why it was left alone, if it was
    policy: dict[str, Any] = field(default_factory=dict)
    ops: tuple[OpRow, ...] = ()
    casts: tuple[CastRow, ...] = ()
    advice: tuple[Advice, ...] = ()
    effort: Effort = field(default_factory=Effort)  # of one run
    tuned: str = ""  # what tuning kept, and why
    trials: tuple[Trial, ...] = ()  # how long its candidates took
    is_compiled: bool = False  # by XLA, which fuses casts with their neighbours
    merged: tuple[MergedRow, ...] = ()

    def __repr__(self) -> str:
        return f"<GraphReport {self.name!r}: {self.kind}, {len(self.low_ops)} of {len(self.ops)} ops in 16 bits>"

    @property
    def low_ops(self) -> list[OpRow]:
        """The ops of which any site runs in 16 bits."""
        return [op for op in self.ops if any(site.dtype == self.low for site in op.sites)]

    @property
    def totals(self) -> Totals:
        """The numbers of the whole graph."""
        return sum(self._per_op(), Totals())

    def by_kind(self) -> dict[str, Totals]:
        """The numbers of every kind of op, that with the most work first."""
        return self._grouped([op.kind for op in self.ops])

    def by_layer(self) -> dict[str, Totals]:
        """The numbers of every layer, that with the most work first; gradients count for the layer they belong to."""
        return self._grouped(layers([op.name for op in self.ops]))

    def _grouped(self, groups: Sequence[str]) -> dict[str, Totals]:
        out: dict[str, Totals] = {}
        for group, one in zip(groups, self._per_op(), strict=True):
            out[group] = out.get(group, Totals()) + one
        by_work = sorted(out.items(), key=lambda each: (-each[1].flops, -each[1].float32_bytes, -each[1].ops, each[0]))
        return dict(by_work)

    def _per_op(self) -> list[Totals]:
        """Per op, itself and the casts of its outputs."""
        out = []
        for op in self.ops:
            low = [site.dtype == self.low for site in op.sites]
            low_flops = op.flops if low and low[0] else 0
            out.append(Totals(1, int(any(low)), flops=op.flops, low_flops=low_flops, float32_bytes=op.bytes))
        for cast in self.casts:
            out[cast.op] += Totals(casts=1, bytes=cast.bytes or 0, unsized_casts=int(cast.bytes is None))
        return out


@dataclass(frozen=True)
class Skip:
    """One step that was not applied, because gradients were not finite."""

    step: int
    variables: tuple[tuple[str, str], ...]  # name and "Inf", "NaN" or "Inf and NaN"


@dataclass(frozen=True)
class ScalerReport:
    """The loss scale of one optimizer, step by step."""

    name: str
    loss_scale: float
    steps: int
    skipped_steps: int
    timeline: tuple[tuple[int, float], ...] = ()  # each change: the first step, and the scale from there on
    skips: tuple[Skip, ...] = ()

    @classmethod
    def of(cls, name: str, record: StepRecord) -> Self:
        """How the optimizer of that name fared, by its record."""
        skips = tuple(Skip(each.step, tuple(each.offenders)) for each in record.skips)
        return cls(name, record.loss_scale, record.steps, record.skipped_steps, record.timeline, skips)


def omission(name: str, record: StepRecord) -> str:
    """What a `ScalerReport` leaves out, in a sentence; "" if nothing."""
    if len(record.skips) < record.skipped_steps:
        return f"{name} skipped {record.skipped_steps} steps, of which the latest {len(record.skips)} are listed."
    return ""


@dataclass(frozen=True)
class ReportData:
    """Graphs with the dtypes of their ops and the reasons, loss scales, warnings: of a plan, or of a process."""

    title: str
    versions: dict[str, str] = field(default_factory=dict)
    graphs: tuple[GraphReport, ...] = ()
    scalers: tuple[ScalerReport, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # what to know when reading it

    def to_json(self) -> str:
        """The report as JSON text."""
        return json.dumps({"schema": SCHEMA, **asdict(self)})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The report that `to_json` wrote.

        Raises:
            ReportError: the text is no report, or of another version.
        """
        report = read_document(cls, text, SCHEMA, "report", ReportError)
        for graph in report.graphs:
            _refuse_dangling(graph)
        return report


def _refuse_dangling(graph: GraphReport) -> None:
    """Refuse rows whose indices point to rows that do not exist."""
    ops = range(len(graph.ops))
    places = {(op, site) for op in ops for site in range(len(graph.ops[op].sites))}
    for op in graph.ops:
        causes = [cause for site in op.sites for cause in zip_longest(site.because, site.because_of)]
        if not (places.issuperset(causes) and all(index in ops for index in op.inputs)):
            raise ReportError(
                f"This report is broken: {op.name!r} in {graph.name!r} points to an op that is not there."
            )
    if not all(op in ops for op in (*(cast.op for cast in graph.casts), *(row.op for row in graph.merged))):
        raise ReportError(f"This report is broken: a row in {graph.name!r} belongs to an op that is not there.")
