"""Sound graphs and models whose bytes were damaged: read or refused, never a traceback, a crash or a hang."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.reliability.hostile_fuzz import fuzzed

if TYPE_CHECKING:
    from pathlib import Path

    from tests.reliability.conftest import Tally


@pytest.mark.parametrize("kind", ["graph", "model"])
def test_damaged_bytes_are_read_or_refused_in_one_message(kind: str, tmp_path: Path, tally: Tally) -> None:
    fuzzed(kind, tmp_path, 30)
    tally("hostile inputs", 2 * 30)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["graph", "model"])
def test_much_damage_is_read_or_refused_in_one_message(kind: str, tmp_path: Path, tally: Tally) -> None:
    fuzzed(kind, tmp_path, 600)
    tally("hostile inputs", 2 * 600)
