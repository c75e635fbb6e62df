"""The HTML page of a report: one file that needs neither network nor server. Start with `page`; `notebook` frames it.

It is put together from static/: page.html, a template; page.css; and the scripts, joined in the order of SCRIPTS. A
name in a graph is never markup: all data goes into one JSON block, and the scripts put it on the page as plain text.
The content security policy forbids every request, and every script but these, which it knows by their hash.

The JSON is compact, and static/data.js unpacks it. Thousands of ops share a few kinds, stages and reasons: every
distinct string is stored once, and so is every distinct verdict (dtype, category, stage and reason of a site). This
makes the page of a large model three times smaller.
"""

import base64
import hashlib
import json
from dataclasses import asdict
from html import escape
from importlib.resources import files
from itertools import chain, islice, takewhile
from math import isfinite
from string import Template
from typing import Any, TypeVar

from mixdown.private_names import words
from mixdown.reports.compare import compare, unpaired
from mixdown.reports.model import GraphReport, OpRow, ReportData, ScalerReport, SiteRow
from mixdown.reports.rendering.blocks import Table, blocks, size
from mixdown.untrusted.escaped import escaped

SCRIPTS = words("""
    dom.js data.js scopes.js tree.js treemap.js map.js search.js chain.js panel.js table.js scale.js parts.js compare.js
    summary.js tabs.js page.js
""")
"""Each uses only those before it; page.js starts the page."""

LARGEST = 500_000
"""Bytes of a page that a notebook stores: a notebook keeps what it shows."""

MOST_LINES = 20


def page(report: ReportData, compared: ReportData | None = None) -> str:
    """The report as one self-contained HTML text; with what changed from an earlier one, if that is given."""
    style = _static("page.css")
    script = '"use strict";\n(() => {\n' + "\n".join(_static(name) for name in SCRIPTS) + "})();\n"
    return Template(_static("page.html")).substitute(
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
        data=_packed(report, compared),
    )


def notebook(report: ReportData) -> str:
    """The report as HTML for the output of a cell."""
    html = page(report)
    if len(html) <= LARGEST:
        style = "width: 100%; height: 900px; border: 0"
        return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{escape(html)}"></iframe>'
    words = takewhile(lambda block: not isinstance(block, Table), blocks(report))
    lines = "\n".join(escape(escaped(str(block))) for block in islice(words, MOST_LINES))
    hint = f"The page of this report has {size(len(html))}: <code>report.save('report.html')</code> writes it"
    return f"<pre>{lines}</pre><p>{hint}, <code>report.why('dense/MatMul')</code> explains an op.</p>"


def _static(name: str) -> str:
    return (files("mixdown.reports.rendering") / "static" / name).read_text("utf-8")


def _hash(text: str) -> str:
    """The source expression by which a content security policy admits an inline style or script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


Item = TypeVar("Item", str, tuple[int, ...])


class _Numbers(dict[Item, int]):
    """Distinct items, numbered in the order in which they are first looked up."""

    def __missing__(self, item: Item) -> int:
        return self.setdefault(item, len(self))


def _packed(report: ReportData, before: ReportData | None) -> str:
    """The report, and how it differs from an earlier one, as JSON that is safe inside a script element."""
    data = {
        **vars(report),
        "scalers": [_scaler(scaler) for scaler in report.scalers],
        "graphs": [_graph(graph) for graph in report.graphs],
        "before": before and before.title,
        "comparison": [asdict(graph) for graph in compare(before, report)] if before else [],
        "unpaired": unpaired(before, report) if before else [[], []],
    }
    # Inside a script element only "<" can end the element or open a comment; JSON may write it as an escape.
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _graph(graph: GraphReport) -> dict[str, Any]:
    strings: _Numbers[str] = _Numbers()
    verdicts: _Numbers[tuple[int, ...]] = _Numbers()
    return {
        **vars(graph),
        "effort": asdict(graph.effort),
        "advice": [asdict(advice) for advice in graph.advice],
        "trials": [(trial.name, trial.shown) for trial in graph.trials],
        "ops": [_op(op, strings, verdicts) for op in graph.ops],
        "casts": [[cast.tensor, cast.op, strings[cast.to], cast.bytes] for cast in graph.casts],
        "verdicts": list(verdicts),
        "strings": list(strings),
    }


def _op(op: OpRow, strings: _Numbers[str], verdicts: _Numbers[tuple[int, ...]]) -> list[Any]:
    shared = [strings[text] for text in (op.kind, op.function, op.source)]
    return [op.name, *shared, op.inputs, [_site(site, strings, verdicts) for site in op.sites], op.flops, op.bytes]


def _site(site: SiteRow, strings: _Numbers[str], verdicts: _Numbers[tuple[int, ...]]) -> list[int]:
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
