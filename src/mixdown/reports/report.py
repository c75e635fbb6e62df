"""The report that users get: its data, with methods that print it, explain an op and save it. See `Report`."""

from pathlib import Path
from typing import Self, TextIO

from mixdown.core.pricing.effort import Effort
from mixdown.core.why import part_of
from mixdown.reports.model import GraphReport, ReportData
from mixdown.reports.rendering.page import notebook, page
from mixdown.reports.rendering.text import show, text
from mixdown.rules.spellings import nearest
from mixdown.untrusted.escaped import escaped


class Report(ReportData):
    """Graphs with the dtypes of their ops and the reasons, loss scales, warnings: of a plan, or of a process."""

    def __str__(self) -> str:
        return text(self)

    def __repr__(self) -> str:
        flops, low = (sum(getattr(graph.effort, name) for graph in self.graphs) for name in ("flops", "low_flops"))
        work = f", {Effort(flops, low).share} of the matrix arithmetic in 16 bits" if flops else ""
        return escaped(f"<Report {self.title!r}: graphs {len(self.graphs)}{work}>")

    def _repr_html_(self) -> str:
        """What a notebook shows: the page, or if that is large, the first lines and how to get it."""
        return notebook(self)

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
        rows = [(graph, index, row) for graph in self.graphs for index, row in enumerate(graph.ops)]
        found = [(graph, index) for graph, index, row in rows if op in (row.name, row.label)]
        wholes = [] if found else [(graph, row.op) for graph in self.graphs for row in graph.merged if op in row.parts]
        if not (found or wholes):
            raise KeyError(f"No op named {op!r} has a float32 port in this report.{_suggestion(self, op)}")
        several = len({id(graph) for graph, _ in found}) > 1
        lines = [line for graph, at in found for line in ([f"In {graph.name}:"] if several else []) + _chain(graph, at)]
        lines += [line for graph, at in wholes for line in (part_of(op, graph.ops[at].label), *_chain(graph, at))]
        return "\n".join(map(escaped, lines))

    def save(self, path: str | Path, *, compared: Self | None = None) -> Path:
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


def _chain(graph: GraphReport, index: int) -> list[str]:
    """One line a decision, from effect to cause, and the line of the program that made the op."""
    op = graph.ops[index]
    lines = [line for position in range(len(op.sites)) for line in _site_chain(graph, (index, position))]
    return [*lines, f"  It was made at {op.source}."] if op.source else lines


def _site_chain(graph: GraphReport, start: tuple[int, int]) -> list[str]:
    """The lines of one site, which is given by the index of its op and its own."""
    queue, seen, lines = [start], {start}, []
    for index, position in queue:
        op, site = graph.ops[index], graph.ops[index].sites[position]
        indent = "" if (index, position) == start else "  "
        label = f"{op.label}.{site.attribute}" if len(op.sites) > 1 else op.label
        lines.append(f"{indent}{label} ({op.kind}) is {site.dtype}: {site.reason}")
        fresh = [cause for cause in zip(site.because, site.because_of, strict=True) if cause not in seen]
        queue.extend(dict.fromkeys(fresh))
        seen.update(fresh)
    return lines


def _suggestion(report: ReportData, name: str) -> str:
    """The ops whose names end with the name, or those of a layer of that name, or else those with similar names."""
    names = sorted({op.name for graph in report.graphs for op in graph.ops}, key=lambda known: (len(known), known))
    last, inside = ([known for known in names if part in f"/{known}$"] for part in (f"/{name}$", f"/{name}"))
    close = last or inside or nearest(name, names, 3)
    return f" Did you mean {' or '.join(map(repr, close[:3]))}?" if close else ""
