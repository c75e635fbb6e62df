"""A report as the compact JSON that its page holds. Start with `packed`; static/data.js unpacks it.

Thousands of ops share a few kinds, stages and reasons: every distinct string is stored once, and so is every distinct
verdict (dtype, category, stage and reason of a site). This makes the page of a large model three times smaller.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import chain
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeVar

from mixdown.reports.compare import compare, unpaired

if TYPE_CHECKING:
    from mixdown.reports.model import GraphReport, OpRow, ReportData, ScalerReport, SiteRow

Item = TypeVar("Item", str, tuple[int, ...])


class Numbers(dict[Item, int]):
    """Distinct items, numbered in the order in which `numbers[item]` first asks for them."""

    def __missing__(self, item: Item) -> int:
        return self.setdefault(item, len(self))


def packed(report: ReportData, before: ReportData | None) -> str:
    """The report, and how it differs from an earlier one, as JSON that is safe inside a script element."""
    data = {
        "title": report.title,
        "versions": report.versions,
        "warnings": report.warnings,
        "notes": report.notes,
        "scalers": [_scaler(scaler) for scaler in report.scalers],
        "graphs": [_graph(graph) for graph in report.graphs],
        "before": before and before.title,
        "comparison": [asdict(graph) for graph in compare(before, report)] if before else [],
        "unpaired": unpaired(before, report) if before else [[], []],
    }
    # Inside a script element only "<" can end the element or open a comment; JSON may write it as an escape.
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _graph(graph: GraphReport) -> dict[str, Any]:
    strings: Numbers[str] = Numbers()
    verdicts: Numbers[tuple[int, ...]] = Numbers()
    return {
        "name": graph.name,
        "kind": graph.kind,
        "low": graph.low,
        "rewritten": graph.rewritten,
        "reason": graph.reason,
        "policy": graph.policy,
        "advice": [asdict(advice) for advice in graph.advice],
        "ops": [_op(op, strings, verdicts) for op in graph.ops],
        "casts": [[cast.tensor, cast.op, strings[cast.to], cast.bytes] for cast in graph.casts],
        "verdicts": list(verdicts),
        "strings": list(strings),
    }


def _op(op: OpRow, strings: Numbers[str], verdicts: Numbers[tuple[int, ...]]) -> list[Any]:
    shared = [strings[text] for text in (op.kind, op.function, op.source)]
    return [op.name, *shared, op.inputs, [_site(site, strings, verdicts) for site in op.sites]]


def _site(site: SiteRow, strings: Numbers[str], verdicts: Numbers[tuple[int, ...]]) -> list[int]:
    """The number of the verdict, then of each cause the op, and which of its sites."""
    verdict = (site.attribute, site.dtype, site.category, site.stage, site.reason)
    causes = chain(*zip(site.because, site.because_of, strict=True))
    return [verdicts[tuple(strings[text] for text in verdict)], *causes]


def _scaler(scaler: ScalerReport) -> dict[str, Any]:
    """JSON has no Inf and no NaN: a scale that is not finite is null."""
    timeline = [(step, _finite(scale)) for step, scale in scaler.timeline]
    return {**asdict(scaler), "loss_scale": _finite(scaler.loss_scale), "timeline": timeline}


def _finite(number: float) -> float | None:
    return number if isfinite(number) else None
