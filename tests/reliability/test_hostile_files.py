"""Graphs and models that nobody would write who means well: refused in a sentence, never run, never written astray."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.reliability.hostile_graphs import files
from tests.reliability.hostile_lab import CANARY, Trial, refused, tried
from tests.reliability.hostile_models import made

from mixdown.reports import Report

if TYPE_CHECKING:
    from tests.reliability.conftest import Tally


def tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Trial]]:
    """Every hostile graph, explained and converted, with all that was written."""
    folder = tmp_path_factory.mktemp("graphs")
    np.array([4, 4], np.int32).tofile(folder / "shape.bin")
    for name, content in files().items():
        (folder / name).write_bytes(content)
    explained = [["explain", name, "--html", f"{name}.html", "--json", f"{name}.json"] for name in files()]
    converted = [["convert", name, f"out/{name}", "--weights", "low"] for name in files()]
    return folder, tried(folder, [*explained, *converted])


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[Trial]]]:
    """Every hostile SavedModel, explained and converted."""
    folder = tmp_path_factory.mktemp("models")
    found = made(folder)
    commands = {
        name: [
            ["explain", str(model), "--why", "nothing"],
            ["convert", str(model), f"out/{model.name}", "--weights", "low", "--io", "low"],
        ]
        for name, model in found.items()
    }
    trials = tried(folder, [command for pair in commands.values() for command in pair])
    return folder, {name: trials[2 * at : 2 * at + 2] for at, name in enumerate(commands)}


def test_every_hostile_graph_is_read_or_refused_in_one_message(graphs: tuple[Path, list[Trial]], tally: Tally) -> None:
    assert {" ".join(trial.command): wrong for trial in graphs[1] if (wrong := refused(trial))} == {}
    tally("hostile inputs", len(graphs[1]))


def test_every_hostile_model_is_read_or_refused_in_one_message(
    models: tuple[Path, dict[str, list[Trial]]], tally: Tally
) -> None:
    found = {name: [refused(trial) for trial in trials] for name, trials in models[1].items()}
    assert {name: wrong for name, wrong in found.items() if any(wrong)} == {}
    tally("hostile inputs", sum(map(len, found.values())))


def test_nothing_that_a_file_asks_for_is_run(
    graphs: tuple[Path, list[Trial]], models: tuple[Path, dict[str, list[Trial]]]
) -> None:
    assert [trial.code for trial in models[1]["sound"]] == [2, 0]
    assert not (graphs[0] / CANARY).exists()
    assert not (models[0] / CANARY).exists()
    told = Report.from_json((graphs[0] / "a_file_as_a_shape.pb.json").read_text("utf-8"))
    assert {cast.tensor: cast.bytes for cast in told.graphs[0].casts}["squared:0"] is None


def test_nothing_is_written_but_what_was_asked_for(
    graphs: tuple[Path, list[Trial]], models: tuple[Path, dict[str, list[Trial]]]
) -> None:
    pages = {f"{name}{ending}" for name in files() for ending in ("", ".html", ".json")}
    assert {name for name in tree(graphs[0]) if not name.startswith("out")} <= {*pages, "shape.bin"}
    assert not list(models[0].rglob("*outside*"))
    assert not list(models[0].rglob("*partial*"))
    copied = [path for path in (models[0] / "out").rglob("*") if path.is_symlink()]
    assert copied == []
    done = {Path(trials[1].command[2]).name for trials in models[1].values() if trials[1].code == 0}
    assert {path.name for path in (models[0] / "out").iterdir()} == done


@pytest.mark.parametrize("name", ["an_ugly_name", "a_deep_scope", "climbing_names"])
def test_an_ugly_graph_is_still_explained(name: str, graphs: tuple[Path, list[Trial]]) -> None:
    (trial,) = [trial for trial in graphs[1] if trial.command[:2] == ["explain", f"{name}.pb"]]
    assert trial.code == 0, trial.said


def test_data_of_a_page_cannot_close_its_script(graphs: tuple[Path, list[Trial]]) -> None:
    page = (graphs[0] / "an_ugly_name.pb.html").read_text("utf-8")
    assert page.count("</script>") == page.count("<script")
    assert "<script>alert(1)" not in page
    assert "<!--" not in page.partition("<body")[2]
