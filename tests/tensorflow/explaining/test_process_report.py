"""`mixdown.report` and the log: what a process is told about itself."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests import fresh

from mixdown.reports import Report

if TYPE_CHECKING:
    from mixdown.reports.model import GraphReport

STORY = Path(__file__).with_name("process_story.py")


@pytest.fixture(scope="module")
def story() -> tuple[Report, list[str]]:
    """The report of the story, and what went to stderr in our name."""
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [*fresh.python(), str(STORY)],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    return Report.from_json(done.stdout), [line for line in done.stderr.splitlines() if line.startswith("mixdown: ")]


def graph(report: Report, name: str) -> GraphReport:
    (found,) = [graph for graph in report.graphs if name in graph.name]
    return found


def test_every_function_is_told_once_with_ops_casts_and_bytes(story: tuple[Report, list[str]]) -> None:
    product = graph(story[0], "product on")
    assert (product.kind, product.rewritten, product.low) == ("function", True, "float16")
    assert [op.kind for op in product.low_ops] == ["MatMul"]
    assert product.totals.bytes == 2 * 16 * 6
    assert graph(story[0], "multi_step_on_iterator").rewritten
    assert not any("probe" in each.name for each in story[0].graphs)


def test_what_is_left_alone_is_told_with_the_reason(story: tuple[Report, list[str]]) -> None:
    exponent = graph(story[0], "exponent on")
    assert (exponent.rewritten, exponent.reason) == (False, "no op in it can run in float16")
    assert "Exp is on the deny list" in story[0].why("Exp")


def test_functions_that_are_gone_are_counted(story: tuple[Report, list[str]]) -> None:
    assert story[0].notes == (
        "Not listed are functions that were rewritten and that the program has deleted since: 1.",
    )


def test_ops_are_traced_to_the_lines_of_the_program(story: tuple[Report, list[str]]) -> None:
    (product,) = graph(story[0], "product on").low_ops
    assert product.source.startswith(f"{STORY}:")
    assert product.source.endswith(", in product")
    (session,) = [op for op in grown(story[0]).ops if op.name == "product"]
    assert session.source.endswith(", in session_that_grows")


def grown(report: Report) -> GraphReport:
    (found,) = [each for each in report.graphs if each.kind == "session" and each.rewritten]
    return found


def test_a_session_is_told_as_it_is_now(story: tuple[Report, list[str]]) -> None:
    dtypes = {op.name: op.sites[0] for op in grown(story[0]).ops}
    assert dtypes["product"].dtype == "float16"
    assert dtypes["relu"].dtype == "float32"  # it was there before there was anything to be low for
    assert [(cast.tensor, cast.to) for cast in grown(story[0]).casts] == [("relu:0", "float16")]


def test_sessions_that_run_float32_are_told_with_the_reason(story: tuple[Report, list[str]]) -> None:
    reasons = {each.reason for each in story[0].graphs if each.kind == "session" and not each.rewritten}
    assert reasons == {"its configuration switches auto_mixed_precision off", "it has not run anything yet"}


def test_the_loss_scale_of_the_optimizer_is_told(story: tuple[Report, list[str]]) -> None:
    (scaler,) = story[0].scalers
    assert (scaler.steps, scaler.skipped_steps) == (1, len(scaler.skips))
    assert scaler.loss_scale == 2.0 ** (15 - scaler.skipped_steps)


def test_warnings_are_kept_even_if_they_are_not_shown(story: tuple[Report, list[str]]) -> None:
    (warning,) = story[0].warnings
    assert warning.startswith("There are sessions already: they stay in float32.")


def test_a_line_is_logged_for_every_function_and_session_that_is_rewritten(story: tuple[Report, list[str]]) -> None:
    lines = story[1]
    products = [line for line in lines if line.startswith("mixdown: function product on ")]
    assert len(products) == 1
    assert ": 100 % of the matrix arithmetic in float16, " in products[0]
    assert any(line.endswith(", 1 of 4 float32 ops, 2 casts") for line in products)
    assert any(line.startswith("mixdown: session: ") for line in lines)
    assert not any("function exponent" in line or "probe" in line for line in lines)
