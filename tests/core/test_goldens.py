"""The goldens: what is recorded is what the planner decides, and together they show every stage and every law."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.goldens.record import RULE, cases, recorded

from mixdown.core.check import LAWS
from mixdown.core.painting.strategies import STRATEGIES
from mixdown.core.why import REASONS

if TYPE_CHECKING:
    from pathlib import Path

ALL = [case.read_text("utf-8") for case in cases()]
ANSWERS = "\n".join(text.partition(f"\n{RULE}\n")[2] for text in ALL)


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.stem)
def test_the_planner_decides_as_recorded(case: Path) -> None:
    text = case.read_text("utf-8")
    assert recorded(text) == text, "run `python tests/goldens/record.py` and review the difference"


@pytest.mark.parametrize(
    "stage", sorted({s.__name__ for stages in STRATEGIES.values() for s in stages} | REASONS.keys())
)
def test_some_golden_shows_the_stage(stage: str) -> None:
    assert f" {stage} <- " in ANSWERS


def test_some_golden_shows_a_demotion() -> None:
    assert any(reason in ANSWERS for reason in LAWS)


def test_every_golden_says_what_it_is_about() -> None:
    assert [text for text in ALL if not text.startswith("# ")] == []
