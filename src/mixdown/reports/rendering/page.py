"""The HTML page of a report: one file that needs neither network nor server. Start with `page`.

It is put together from static/: page.html, a template; page.css; and the scripts, joined in the order of SCRIPTS. A
name in a graph is never markup: all data goes into one JSON block, and the scripts put it on the page as plain text.
The content security policy forbids every request, and every script but these, which it knows by their hash.
"""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING

from mixdown.reports.rendering.page_data import packed

if TYPE_CHECKING:
    from mixdown.reports.model import ReportData

SCRIPTS = (
    "dom.js",
    "data.js",
    "scopes.js",
    "tree.js",
    "treemap.js",
    "map.js",
    "search.js",
    "chain.js",
    "panel.js",
    "table.js",
    "scale.js",
    "parts.js",
    "compare.js",
    "summary.js",
    "tabs.js",
    "page.js",
)
"""Each uses only those before it; page.js starts the page."""


def page(report: ReportData, compared: ReportData | None = None) -> str:
    """The report as one self-contained HTML text.

    Args:
        report: what the page shows.
        compared: an earlier report; the page then also shows what changed from it to `report`.
    """
    style = _static("page.css")
    script = '"use strict";\n(() => {\n' + "\n".join(_static(name) for name in SCRIPTS) + "})();\n"
    return Template(_static("page.html")).substitute(
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
        data=packed(report, compared),
    )


def _static(name: str) -> str:
    return (files("mixdown.reports.rendering") / "static" / name).read_text("utf-8")


def _hash(text: str) -> str:
    """The source expression by which a content security policy admits an inline style or script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
