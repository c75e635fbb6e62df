"""The line under a test run: it adds up what the tests tallied, and counts those that failed."""

from typing import Literal

import pytest
from tests.conftest import summary
from tests.reliability.conftest import Tally


def report(outcome: Literal["passed", "failed"], *tallies: tuple[str, int]) -> pytest.TestReport:
    """What pytest reports of a test that tallied something."""
    properties: list[tuple[str, object]] = [("tally", tallied) for tallied in tallies]
    return pytest.TestReport("test_x", ("", 0, ""), {}, outcome, None, "call", user_properties=properties)


def test_the_summary_adds_up_by_kind() -> None:
    functions, more = report("passed", ("fuzz functions", 4000)), report("passed", ("fuzz functions", 250))
    sessions, faults = report("passed", ("fuzz sessions", 1000)), report("passed", ("faults injected", 37))
    line = summary([functions, more, sessions, faults])
    assert line == "reliability: 5,250 fuzz cases (4,250 functions, 1,000 sessions), 37 faults injected, 0 lost"


def test_the_summary_counts_tests_that_failed() -> None:
    assert summary([report("failed", ("faults injected", 2)), report("passed")]) == (
        "reliability: 2 faults injected, 1 lost"
    )


def test_a_tally_travels_with_the_report(tally: Tally, request: pytest.FixtureRequest) -> None:
    tally("fuzz functions", 0)
    tally("faults injected", count=0)
    assert request.node.user_properties == [("tally", ("fuzz functions", 0)), ("tally", ("faults injected", 0))]
