"""A report onto a terminal, or whatever stands in for one. Start with `show`."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, TextIO

from mixdown.reports.rendering.plain_text import text

if TYPE_CHECKING:
    from mixdown.reports.model import Report


def show(report: Report, file: TextIO | None = None) -> None:
    """Print a report: with rich on a terminal, if that is installed, and as plain text elsewhere."""
    out = file or sys.stdout
    if out.isatty() and find_spec("rich"):
        from mixdown.reports.rendering.rich_text import print_rich  # noqa: PLC0415 - rich is optional

        print_rich(report, out)
    else:
        out.write(encodable(text(report), out) + "\n")


def encodable(words: str, file: TextIO) -> str:
    """The words with what the file cannot encode written as numbers."""
    encoding = getattr(file, "encoding", None) or "utf-8"
    return words.encode(encoding, "backslashreplace").decode(encoding)
