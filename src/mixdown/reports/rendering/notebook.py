"""What a notebook shows of a report: its page in a frame, or a summary where the page is large. See `notebook`."""

from __future__ import annotations

from html import escape
from itertools import islice, takewhile

from mixdown.reports.model import ReportData
from mixdown.reports.rendering.blocks import Table, blocks, size
from mixdown.reports.rendering.page import page
from mixdown.untrusted.escaped import escaped

LARGEST = 500_000
"""Bytes of a page that a notebook stores: a notebook keeps what it shows."""

MOST_LINES = 20


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
