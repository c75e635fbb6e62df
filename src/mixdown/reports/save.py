"""A report into a file: page, JSON or text, by the ending of its name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mixdown.reports.rendering.page import page
from mixdown.reports.rendering.plain_text import text

if TYPE_CHECKING:
    from mixdown.reports.model import Report


def save(report: Report, path: str | Path, compared: Report | None = None) -> Path:
    """Write a report as a page (`.html`), as JSON (`.json`) or as text (`.txt`); returns the path.

    Raises:
        ValueError: the name ends in something else.
    """
    target = Path(path)
    match target.suffix:
        case ".html":
            content = page(report, compared)
        case ".json":
            content = report.to_json()
        case ".txt":
            content = text(report) + "\n"
        case _:
            raise ValueError(f"A report is saved as .html, .json or .txt, not as {target.name!r}.")
    target.write_text(content, "utf-8")
    return target
