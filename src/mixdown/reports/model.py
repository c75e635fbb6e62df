"""What a report holds: plain frozen data that goes to JSON and comes back equal. Start with `Report`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Self, TextIO

from mixdown.errors import MisfitError, ReportError
from mixdown.reports.chain import why
from mixdown.reports.rendering.plain_text import text
from mixdown.reports.rendering.show import show
from mixdown.reports.save import save
from mixdown.reports.totals import Totals, by_kind, by_layer, totals
from mixdown.untrusted.json_text import parsed
from mixdown.untrusted.typed import from_json_data

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = "mixdown-report/1"
"""Name and version of the JSON that `Report.to_json` writes; `Report.from_json` reads this one only."""


@dataclass(frozen=True)
class SiteRow:
    """One site of an op: what it was, what it became, and why."""

    attribute: str
    dtype: str  # after the rewrite; before it was float32
    category: str
    stage: str
    reason: str
    because: tuple[int, ...] = ()  # indices of the ops that caused it,
    because_of: tuple[int, ...] = ()  # and which site of each


@dataclass(frozen=True)
class OpRow:
    """One op with float32 ports."""

    name: str
    kind: str
    function: str  # the function it stands in, "" for the outermost graph
    sites: tuple[SiteRow, ...]
    inputs: tuple[int, ...] = ()  # indices of the ops whose float32 values it reads
    source: str = ""  # the user's line that made it, where the graph tells


@dataclass(frozen=True)
class CastRow:
    """One conversion that the rewrite inserts."""

    tensor: str
    op: int  # index of the op whose value it converts
    to: str
    bytes: int | None  # read and written together; None where the shape is not known


@dataclass(frozen=True)
class Advice:
    """A dimension of a layer that Tensor Cores do not like."""

    layer: str
    dimension: str  # "batch size", "input size", ...
    size: int
    better: int  # the nearest size that they like
    ops: tuple[str, ...] = ()  # the low ops that have it


@dataclass(frozen=True)
class GraphReport:
    """One function, session or graph."""

    name: str
    kind: str  # "function", "session" or "graph"
    low: str
    rewritten: bool
    reason: str  # why it was left alone, if it was
    policy: dict[str, Any] = field(default_factory=dict)
    ops: tuple[OpRow, ...] = ()
    casts: tuple[CastRow, ...] = ()
    advice: tuple[Advice, ...] = ()

    @property
    def low_ops(self) -> list[OpRow]:
        """The ops of which any part became low."""
        return [op for op in self.ops if any(site.dtype == self.low for site in op.sites)]

    @property
    def totals(self) -> Totals:
        """The graph in numbers."""
        return totals(self)

    def by_kind(self) -> dict[str, Totals]:
        """The numbers of every kind of op, the most frequent first."""
        return by_kind(self)

    def by_layer(self) -> dict[str, Totals]:
        """The numbers of every layer (the scope an op stands in, gradients with what they are gradients of)."""
        return by_layer(self)


@dataclass(frozen=True)
class Skip:
    """One step that was not applied, because gradients were not finite."""

    step: int
    variables: tuple[tuple[str, str], ...]  # name and "Inf", "NaN" or "Inf and NaN"


@dataclass(frozen=True)
class ScalerReport:
    """What one loss-scale optimizer went through."""

    name: str
    loss_scale: float
    steps: int
    skipped_steps: int
    timeline: tuple[tuple[int, float], ...] = ()  # the step from which on, and the scale
    skips: tuple[Skip, ...] = ()


@dataclass(frozen=True)
class Report:
    """All that is known of a plan, or of a process."""

    title: str
    versions: dict[str, str] = field(default_factory=dict)
    graphs: tuple[GraphReport, ...] = ()
    scalers: tuple[ScalerReport, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # what to know when reading it

    def __str__(self) -> str:
        return text(self)

    def show(self, file: TextIO | None = None) -> None:
        """Print it: with rich on a terminal, if that is installed, and as plain text elsewhere."""
        show(self, file)

    def why(self, op: str) -> str:
        """The chain of causes behind the dtype of an op, for people.

        Args:
            op: the name of the op, followed by " in " and the function if several functions have one of that name.

        Raises:
            KeyError: no graph of the report has such an op with a float32 port.
        """
        return why(self, op)

    def save(self, path: str | Path, *, compared: Report | None = None) -> Path:
        """Write it as a page (`.html`), as JSON (`.json`) or as text (`.txt`); returns the path.

        Args:
            path: the file to write.
            compared: an earlier report; a page then also shows what changed since.

        Raises:
            ValueError: the name ends in something else.
        """
        return save(self, path, compared)

    def to_json(self) -> str:
        """The report as JSON text."""
        return json.dumps({"schema": SCHEMA, **asdict(self)})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The report that `to_json` wrote.

        Raises:
            ReportError: the text is no report, or of another version.
        """
        try:
            data = parsed(text)
        except ValueError as broken:
            raise ReportError(f"This is not a report: it is not JSON ({broken}).") from None
        schema = data.pop("schema", None) if isinstance(data, dict) else None
        if schema != SCHEMA:
            raise ReportError(f"This is not a report that mixdown can read: its schema is {schema!r}, not {SCHEMA!r}.")
        try:
            report = from_json_data(cls, data, "the report")
        except MisfitError as misfit:
            raise ReportError(f"This report is broken: {misfit}.") from None
        for graph in report.graphs:
            _refuse_dangling(graph)
        return report


def _refuse_dangling(graph: GraphReport) -> None:
    """Refuse rows that point to rows which are not there."""
    ops = range(len(graph.ops))
    places = {(op, site) for op in ops for site in range(len(graph.ops[op].sites))}
    for op in graph.ops:
        causes = [cause for site in op.sites for cause in zip_longest(site.because, site.because_of)]
        if not (places.issuperset(causes) and all(index in ops for index in op.inputs)):
            raise ReportError(
                f"This report is broken: {op.name!r} in {graph.name!r} points to an op that is not there."
            )
    if not all(cast.op in ops for cast in graph.casts):
        raise ReportError(f"This report is broken: a cast in {graph.name!r} belongs to an op that is not there.")
