"""`mixdown explain` and `mixdown diff` as a user runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import tensorflow as tf
from tests import fresh

from mixdown import cli
from mixdown.reports import Report

if TYPE_CHECKING:
    from pathlib import Path


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - our own interpreter
        [*fresh.python(), "-m", "mixdown", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=cwd,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A frozen graph, and its reports under two policies."""
    made = tmp_path_factory.mktemp("graphs")
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [8, 100], name="x")
        tf.nn.softmax(tf.matmul(x, tf.ones([100, 1000]), name="dense/MatMul") @ tf.ones([1000, 8]), name="y")
    tf.io.write_graph(graph.as_graph_def(add_shapes=True), str(made), "frozen.pb", as_text=False)
    frozen = str(made / "frozen.pb")
    assert cli.main(["explain", frozen, "--quiet", "--json", str(made / "before.json")]) == 0
    assert cli.main(["explain", frozen, "--quiet", "--low", "bfloat16", "--json", str(made / "after.json")]) == 0
    return made


def test_a_graph_is_explained_in_text_page_and_json(folder: Path) -> None:
    done = run("explain", "frozen.pb", "--html", "page.html", "--json", "report.json", cwd=folder)
    assert done.returncode == 0, done.stderr
    report = Report.from_json((folder / "report.json").read_text("utf-8"))
    assert done.stdout == f"{report}\n"
    assert "dense  input size  100   128" in done.stdout
    assert (folder / "page.html").read_text("utf-8").startswith("<!doctype html>")


def test_the_time_of_a_run_is_predicted_for_a_named_device(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", str(folder / "frozen.pb"), "--device", "V100"]) == 0
    assert "Predicted for V100 (a roofline, not a measurement): float32 " in " ".join(capsys.readouterr().out.split())


def test_an_unknown_device_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", str(folder / "frozen.pb"), "--device", "A10"]) == 2
    assert "Unknown device 'A10' (did you mean 'A100'?)" in capsys.readouterr().err


def test_why_prints_the_chain_and_nothing_else(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", str(folder / "frozen.pb"), "--why", "dense/MatMul", "--why", "y"]) == 0
    chains = capsys.readouterr().out.split("\n\n")
    assert chains[0] == "dense/MatMul (MatMul) is float16: MatMul is on the allow list"
    assert chains[1].startswith("y (Softmax) is float32: ")


def test_fetches_can_be_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frozen = str(folder / "frozen.pb")
    assert cli.main(["explain", frozen, "--fetch", "dense/MatMul", "--fetch", "y", "--why", "dense/MatMul"]) == 0
    assert "it is fed, fetched or otherwise asked for by name" in capsys.readouterr().out


REFUSED = {
    "a missing file": (["explain", "nowhere.pb"], "There is no model at 'nowhere.pb': give a SavedModel's folder"),
    "an unknown op": (["explain", "frozen.pb", "--why", "MatMul"], "Did you mean 'dense/MatMul'?"),
    "an unknown fetch": (["explain", "frozen.pb", "--fetch", "z"], "The graph has no node 'z' to feed or fetch."),
    "another ending": (["explain", "frozen.pb", "--html", "page.htm"], "--html writes a file that ends in .html"),
    "no place": (["explain", "frozen.pb", "--json", "no/where.json"], "'no/where.json' cannot be written: there is no"),
    "signatures": (
        ["explain", "frozen.pb", "--signature", "x"],
        "frozen.pb is no SavedModel, so it has no signatures.",
    ),
    "devices": (["explain", "frozen.pb", "--devices", "G P U"], "Unknown devices ('G P U',)"),
    "no report": (["diff", "frozen.pb", "after.json"], "'frozen.pb': "),
    "a missing report": (["diff", "before.json", "nowhere.json"], "'nowhere.json' cannot be read"),
    "another page": (
        ["diff", "before.json", "after.json", "--html", "a.pdf"],
        "'a.pdf' cannot be written: A report is",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_done_is_named_with_exit_code_2(
    case: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    arguments, message = REFUSED[case]
    assert cli.main(arguments) == 2
    said = capsys.readouterr()
    assert said.err.startswith("mixdown: ")
    assert message in said.err
    assert said.out == ""


def test_equal_reports_have_no_difference(folder: Path) -> None:
    done = run("diff", "before.json", "before.json", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("frozen.pb: the same, ")


def test_different_reports_are_told_apart_with_both_reasons(folder: Path) -> None:
    done = run("diff", "before.json", "after.json", "--html", "both.html", cwd=folder)
    assert (done.returncode, done.stderr) == (1, "")
    allowed = "(MatMul is on the allow list)"
    assert f"  dense/MatMul (MatMul, T): float16 {allowed} -> bfloat16 {allowed}\n" in done.stdout
    assert "\n  - cast of x:0 to float16\n" in done.stdout
    assert "\n  + cast of x:0 to bfloat16\n" in done.stdout
    assert '"before":"What mixed precision does to frozen.pb"' in (folder / "both.html").read_text("utf-8")


def test_quiet_leaves_only_the_exit_code(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [str(folder / name) for name in ("before.json", "after.json")]
    assert cli.main(["diff", *paths, "--quiet"]) == 1
    assert capsys.readouterr().out == ""


def test_a_diff_needs_no_framework(folder: Path) -> None:
    script = (
        "import sys; from mixdown.cli import main; code = main(['diff', 'before.json', 'after.json', '--quiet']);"
        "assert code == 1 and 'tensorflow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=folder)  # noqa: S603 - our own interpreter


@pytest.mark.parametrize("command", ["explain", "diff", "doctor"])
def test_help_shows_examples_and_exit_codes(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main([command, "--help"])
    assert stopped.value.code == 0
    said = capsys.readouterr().out
    assert f"examples:\n  mixdown {command} " in said or f"\n  mixdown {command} " in said
    assert "exit codes:\n  0  " in said
