"""The report that users get: its data, and the methods to read, print and save it. See `Report`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mixdown.reports.chain import why
from mixdown.reports.model import ReportData
from mixdown.reports.rendering.page import page
from mixdown.reports.rendering.text import show, text

if TYPE_CHECKING:
    from typing import TextIO


class Report(ReportData):
    """All that is known of a plan, or of a process."""

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
        target = Path(path)
        match target.suffix:
            case ".html":
                content = page(self, compared)
            case ".json":
                content = self.to_json()
            case ".txt":
                content = f"{self}\n"
            case _:
                raise ValueError(f"A report is saved as .html, .json or .txt, not as {target.name!r}.")
        target.write_text(content, "utf-8")
        return target
