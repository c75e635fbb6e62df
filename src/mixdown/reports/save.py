"""A report into a file: page, JSON or text, by the ending of its name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mixdown.reports.page import page

if TYPE_CHECKING:
    from mixdown.reports.model import Report


def save(report: Report, path: str | Path) -> Path:
    """Write a report as a page (`.html`) or as JSON (`.json`); returns the path.

    Raises:
        ValueError: the name ends in something else.
    """
    target = Path(path)
    match target.suffix:
        case ".html":
            text = page(report)
        case ".json":
            text = report.to_json()
        case _:
            raise ValueError(f"A report is saved as .html or .json, not as {target.name!r}.")
    target.write_text(text, "utf-8")
    return target
