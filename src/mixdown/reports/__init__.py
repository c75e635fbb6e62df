"""Reports on plans and runs, for people and programs. Pure.

In comes a `Plan`, with what a host knows of its graph (`Facts`): `graph_report` turns it into rows. Out comes a
`Report` of these, which can be printed, asked why an op has its dtype, and saved as a page, as JSON or as text.
"""

from mixdown.reports.build import Facts, graph_report
from mixdown.reports.report import Report

__all__ = ["Facts", "Report", "graph_report"]
