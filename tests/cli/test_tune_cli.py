"""`mixdown tune`: what is remembered is shown and deleted, and a file that is none is named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.tuning.test_memory import FOUND, POLICY

from mixdown import cli
from mixdown.tuning import memory

if TYPE_CHECKING:
    from pathlib import Path


def test_what_is_remembered_is_shown_and_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(memory.VARIABLE, str(tmp_path))
    assert cli.main(["tune", "show"]) == 0
    assert capsys.readouterr().out == f"{tmp_path}/tuned: 0 functions tuned\n"
    memory.store(POLICY, FOUND)
    (memory.folder() / "broken.json").write_text("{\x1b")
    assert cli.main(["tune", "show"]) == 0
    told = capsys.readouterr().out
    assert "train on CPU: kept float32: nothing was faster\n  100 ms  1.000  1.000 to 1.000  6  float32\n" in told
    assert "broken.json: This is not a tuned function: it is not JSON" in told
    assert "\x1b" not in told
    assert told.endswith("tuned: 2 functions tuned\n")
    assert cli.main(["tune", "clear"]) == 0
    assert capsys.readouterr().out.endswith("tuned: 2 functions deleted\n")
    assert list(memory.folder().iterdir()) == []


def test_what_is_not_understood_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["tune", "sow"])
    assert "invalid choice: 'sow'" in capsys.readouterr().err
