"""A report as the compact JSON that its page carries. Start with `packed`; static/data.js reads it back.

Thousands of ops share a few kinds, stages and reasons: every distinct string is stored once, and so is every distinct
verdict on a site. The page of a large model is a third of the size for it, and opens the sooner.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import chain
from math import isfinite
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from mixdown.reports.compare import unpaired

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mixdown.reports.compare import GraphComparison
    from mixdown.reports.model import GraphReport, OpRow, ReportData, ScalerReport, SiteRow


Item = TypeVar("Item", str, tuple[int, ...])


class Pool(Generic[Item]):
    """Every distinct item once, known by its number."""

    def __init__(self) -> None:
        self._numbers: dict[Item, int] = {}

    def number(self, item: Item) -> int:
        """The number of an item, new or known."""
        return self._numbers.setdefault(item, len(self._numbers))

    @property
    def items(self) -> list[Item]:
        """All items; the number of each is its position."""
        return list(self._numbers)


def packed(report: ReportData, before: ReportData | None, comparison: Sequence[GraphComparison]) -> str:
    """The report, and how it differs from an earlier one, as JSON that is safe inside a script element."""
    data = {
        "title": report.title,
        "versions": report.versions,
        "warnings": report.warnings,
        "notes": report.notes,
        "scalers": [_scaler(scaler) for scaler in report.scalers],
        "graphs": [_graph(graph) for graph in report.graphs],
        "before": before and before.title,
        "comparison": [asdict(graph) for graph in comparison],
        "unpaired": unpaired(before, report) if before else [[], []],
    }
    # Inside a script element only "<" can end the element or open a comment; JSON knows it by its number too.
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _graph(graph: GraphReport) -> dict[str, Any]:
    strings: Pool[str] = Pool()
    verdicts: Pool[tuple[int, ...]] = Pool()
    return {
        "name": graph.name,
        "kind": graph.kind,
        "low": graph.low,
        "rewritten": graph.rewritten,
        "reason": graph.reason,
        "policy": graph.policy,
        "advice": [asdict(advice) for advice in graph.advice],
        "ops": [_op(op, strings, verdicts) for op in graph.ops],
        "casts": [[cast.tensor, cast.op, strings.number(cast.to), cast.bytes] for cast in graph.casts],
        "verdicts": verdicts.items,
        "strings": strings.items,
    }


def _op(op: OpRow, strings: Pool[str], verdicts: Pool[tuple[int, ...]]) -> list[Any]:
    shared = [strings.number(text) for text in (op.kind, op.function, op.source)]
    return [op.name, *shared, op.inputs, [_site(site, strings, verdicts) for site in op.sites]]


def _site(site: SiteRow, strings: Pool[str], verdicts: Pool[tuple[int, ...]]) -> list[int]:
    """The number of the verdict, then its causes: of each the op, and which of its sites."""
    verdict = (site.attribute, site.dtype, site.category, site.stage, site.reason)
    causes = chain(*zip(site.because, site.because_of, strict=True))
    return [verdicts.number(tuple(strings.number(text) for text in verdict)), *causes]


def _scaler(scaler: ScalerReport) -> dict[str, Any]:
    """JSON has no Inf and no NaN: a scale that is not finite is null."""
    timeline = [(step, _finite(scale)) for step, scale in scaler.timeline]
    return {**asdict(scaler), "loss_scale": _finite(scaler.loss_scale), "timeline": timeline}


def _finite(number: float) -> float | None:
    return number if isfinite(number) else None
