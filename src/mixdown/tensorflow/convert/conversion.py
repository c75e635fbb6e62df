"""What became of a model: `Conversion`, and the report that is made of its plans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import tensorflow as tf

from mixdown import __version__
from mixdown.reports import Report
from mixdown.reports.build import graph_report

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from mixdown.core import Plan


@dataclass(frozen=True)
class Conversion:
    """A converted model: where it and the page of its report are, and what is stored in 16 bits."""

    path: Path
    report: Report
    low_variables: tuple[str, ...]
    low_constants: int
    page: Path

    def __str__(self) -> str:
        ops = sum(len(graph.ops) for graph in self.report.graphs)
        low = sum(len(graph.low_ops) for graph in self.report.graphs)
        casts = sum(len(graph.casts) for graph in self.report.graphs)
        stored = f"{len(self.low_variables)} variables and {self.low_constants} constants are stored in 16 bits."
        return f"{low} of {ops} float32 ops run in 16 bits, with {casts} casts. {stored}"


def make_report(name: str, plans: Mapping[str, Plan], warnings: Iterable[str]) -> Report:
    """The report of a converted model."""
    said = list(warnings)
    if not any(plan.changes_anything for plan in plans.values()):
        said.append(f"Nothing in {name} can be low under this policy: the converted model computes as before.")
    versions = {"mixdown": __version__, "tensorflow": tf.__version__}
    graphs = tuple(graph_report(plan, graph, "graph") for graph, plan in plans.items())
    return Report(f"{name}, converted", versions, graphs, warnings=tuple(said))
