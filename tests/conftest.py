"""What all tests share, and the last lines of a run: what was run again or skipped, and how much was tried.

The first stands here and not in `tests/reliability`, because under xdist the process that prints collects no tests and
so reads no conftest below this one. The counts travel with the tests' reports, as user properties.
"""

import gc
import os
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import pytest
from hypothesis import settings
from tests.worker_deaths import (
    RUN_AGAIN,
    pytest_handlecrashitem,
    pytest_report_teststatus,
    pytest_xdist_make_scheduler,
)

__all__ = [
    "pytest_handlecrashitem",
    "pytest_report_teststatus",
    "pytest_xdist_make_scheduler",
]  # pytest finds them here

settings.register_profile("repeatable", derandomize=True)  # whoever runs the tests twice gets the same answer twice
settings.register_profile("searching", derandomize=False)  # `make test-all`: new examples every time
settings.load_profile("repeatable")

FOLDER: Final = "tests/reliability/"
FUZZ: Final = "fuzz "  # kinds of random programs: "fuzz functions", "fuzz sessions"


@pytest.fixture(autouse=True, scope="module")
def only_new_objects_are_collected() -> None:
    """What earlier modules left is not searched for garbage again: with TensorFlow loaded that takes seconds."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print one line if any reliability test ran, one if any test was skipped, and one for every process that died."""
    for report in terminalreporter.stats.get(RUN_AGAIN, []):
        terminalreporter.write_line(f"A process died during {report.nodeid}; what it had not finished was run again.")
    reports = [report for found in terminalreporter.stats.values() for report in found if _is_ours(report)]
    if reports:
        terminalreporter.write_line(summary(reports))
    if reasons := [reason_of(report) for report in terminalreporter.stats.get("skipped", [])]:
        terminalreporter.write_line(skipped(reasons))


def pytest_report_header() -> str:
    """Tell the seed of the long run of random programs."""
    return f"MIXDOWN_FUZZ_SEED={os.environ.get('MIXDOWN_FUZZ_SEED', '0')}"


def _is_ours(report: object) -> bool:
    return isinstance(report, pytest.TestReport) and report.when == "call" and report.nodeid.startswith(FOLDER)


def _tallies(report: pytest.TestReport) -> list[Any]:
    return [value for name, value in report.user_properties if name == "tally"]


def summary(reports: Sequence[pytest.TestReport]) -> str:
    """What the tests tallied, added up by kind, and how many of them failed."""
    counts: Counter[str] = Counter()
    for kind, count in (tallied for report in reports for tallied in _tallies(report)):
        counts[kind] += count
    fuzz = {kind.removeprefix(FUZZ): count for kind, count in counts.items() if kind.startswith(FUZZ)}
    parts = [f"{count:,} {kind}" for kind, count in sorted(counts.items()) if not kind.startswith(FUZZ)]
    if fuzz:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(fuzz.items()))
        parts.insert(0, f"{sum(fuzz.values()):,} fuzz cases ({kinds})")
    return f"reliability: {', '.join([*parts, f'{sum(report.failed for report in reports)} lost'])}"


def reason_of(report: pytest.TestReport) -> str:
    """Why a test was skipped."""
    found = report.longrepr
    return str(found[2] if isinstance(found, tuple) else found).removeprefix("Skipped: ")


def skipped(reasons: Sequence[str]) -> str:
    """How many tests were skipped, for which reasons; a reason says how to have them: `needs X: install it so`."""
    counts = Counter(reasons).most_common()
    return "skipped: " + "; ".join(f"{count} test{'s' * (count > 1)}: {reason}" for reason, count in counts)
