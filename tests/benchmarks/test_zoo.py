"""The zoo's runner and table, with programs made up here: no third-party package is needed."""

import ast
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks.zoo import runner
from benchmarks.zoo.catalogue import PACKAGES, PROGRAMS, Program
from benchmarks.zoo.table import comparisons, page

FOLDER = Path(runner.__file__).parent
FAKE = Program("fake", "fake")


def run_of(dtype: str, losses: list[float], *, compiled: bool = False, seed: int = 1, **more: Any) -> dict[str, Any]:
    did = {
        "planning": 0.5,
        "warnings": [],
        "skipped": 0,
        "low_work": 75,
        "full_work": 25,
        "kept": [["MatMul: odd", 25]],
    }
    run = {"dtype": dtype, "compiled": compiled, "seed": seed, "losses": losses, "error": "", "tracing": 2.0}
    return {**run, **(did if dtype != "float32" else {}), **more}


def result_of(*mixed: dict[str, Any], error: str = "") -> dict[str, Any]:
    full = [run_of("float32", [4.0, 3.0, 2.0], seed=1), run_of("float32", [4.0, 3.0, 2.1], seed=2)]
    return {"runs": [*full, run_of("float32", [4.0, 3.0, 2.0], compiled=True), *mixed], "error": error, "seconds": 1.0}


def lines_under(heading: str, text: str) -> list[str]:
    _, _, after = text.partition(f"## {heading}\n\n")
    return after.partition("\n\n")[0].strip().splitlines()


def test_a_mixed_run_is_within_the_range_of_two_seeds_or_is_listed_with_its_explanation() -> None:
    results = {
        "near": result_of(run_of("float16", [4.0, 3.0, 2.05])),
        "far": result_of(run_of("float16", [4.0, 3.0, 2.5])),
        "lost": result_of(run_of("float16", [4.0, 3.0, float("nan")])),
    }
    text = page(results, {"far": "The seeds happen to agree."})
    assert lines_under("Farther from float32 than another seed", text) == [
        "* far: uncompiled, 0.5 where two seeds differ by 0.1. The seeds happen to agree.",
        "* lost: uncompiled, nan where two seeds differ by 0.1. Not explained yet.",
    ]
    assert "within that of the\ntwo seeds for 1 of 3 runs" in text


def test_a_run_that_skipped_steps_is_compared_with_float32_after_as_many_steps_as_it_took() -> None:
    (one,) = comparisons("skips", result_of(run_of("float16", [4.0, 4.0, 3.0], skipped=1)))
    assert (one.loss, one.difference, one.range) == (3.0, 0.0, 0.0)
    assert one.is_within


def test_a_row_holds_both_ways_to_run_and_a_list_what_stayed_float32() -> None:
    mixed = (
        run_of("float16", [4.0, 3.0, 2.0]),
        run_of("float16", [4.0, 3.0, 2.25], compiled=True, full_work=0, skipped=0),
    )
    text = page({"both": result_of(*mixed)})
    assert "| both | float16 | 75% | 2 | 0.1 | 0 | 100% | 0.25 | 0 | 0.50 | 2.00 |" in text
    assert lines_under("Less than nine tenths of the arithmetic in 16 bits", text) == [
        "* both: 75%. MatMul: odd (25 operations)"
    ]


def test_warnings_and_failures_are_listed_and_an_empty_list_says_so() -> None:
    broken = run_of("float16", [], compiled=True)
    broken["error"] = "InvalidArgumentError: no | kernel\nhere"
    warned = run_of("float16", [4.0, 3.0, 2.0], warnings=["Mind this."])
    text = page(
        {"some": result_of(warned, broken), "gone": {"runs": [], "error": "it took longer than 9 s", "seconds": 9}}
    )
    assert lines_under("Warnings", text) == ["* some: Mind this."]
    assert lines_under("Did not run", text) == [
        "* some, float16, compiled: InvalidArgumentError: no kernel here",
        "* gone: it took longer than 9 s",
    ]
    assert lines_under("Farther from float32 than another seed", text) == ["* none"]
    assert "1 of 2 programs ran mixed, 0 of them also compiled" in text


def test_the_answer_of_a_worker_is_read_and_a_failure_or_timeout_is_a_result() -> None:
    says = [sys.executable, "-c", f"print('noise'); print({runner.ANSWER!r} + '{{\"runs\": [1]}}')"]
    found = runner.run(says, FAKE, 60)
    assert (found["runs"], found["error"]) == ([1], "")
    found = runner.run([sys.executable, "-c", "raise SystemExit('no such luck')"], FAKE, 60)
    assert (found["runs"], found["error"]) == ([], "exit code 1: no such luck")
    found = runner.run([sys.executable, "-c", "import time; time.sleep(60)"], FAKE, 0.2)
    assert (found["runs"], found["error"]) == ([], "it took longer than 0 s")


@pytest.mark.parametrize("environment", PACKAGES)
def test_a_worker_knows_which_keras_its_environment_has(environment: str) -> None:
    asks = f"import os, json; print({runner.ANSWER!r} + json.dumps({{'runs': [os.environ['TF_USE_LEGACY_KERAS']]}}))"
    found = runner.run([sys.executable, "-c", asks], FAKE._replace(environment=environment), 60)
    assert found["runs"] == ["1" if environment == "tf_keras" else "0"]


def test_a_result_is_kept_until_the_source_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert runner.kept(tmp_path, "a program", FAKE) is None
    runner.keep(tmp_path, "a program", FAKE, {"runs": [], "error": ""})
    assert runner.kept(tmp_path, "a program", FAKE) == {"runs": [], "error": ""}
    assert [path.name for path in tmp_path.iterdir()] == ["a_program.json"]
    assert runner.kept(tmp_path, "a program", Program("catalogue", "fake")) is None
    monkeypatch.setattr(runner, "source", lambda _: "another")
    assert runner.kept(tmp_path, "a program", FAKE) is None


def test_an_interrupted_run_goes_on_where_it_stopped_and_a_named_program_runs_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def run(command: list[str], _: Program, __: float) -> dict[str, Any]:
        if len(ran) == 2 and command[2] == "c":
            raise KeyboardInterrupt
        ran.append(command[2])
        return {**result_of(run_of("float16", [4.0, 3.0, 2.0])), "seconds": 1.0}

    monkeypatch.setattr(runner, "PROGRAMS", dict.fromkeys("abc", FAKE))
    monkeypatch.setattr(runner, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(runner, "PAGE", tmp_path / "zoo.md")
    monkeypatch.setattr(runner, "set_up", lambda *_: Path("python"))
    monkeypatch.setattr(runner, "run", run)
    with pytest.raises(KeyboardInterrupt):
        runner.main(["--jobs", "1"])
    ran.append("interrupted")
    runner.main(["--jobs", "1"])
    assert ran == ["a", "b", "interrupted", "c"]
    runner.main(["--jobs", "1", "b"])
    assert ran[4:] == ["b"]
    assert (tmp_path / "zoo.md").read_text("utf-8").count("| float16 | 75% |") == 3
    with pytest.raises(SystemExit):
        runner.main(["d"])


def test_environments_are_made_once_for_a_list_of_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def run(command: list[str]) -> None:
        commands.append(command)
        (tmp_path / "env").mkdir(exist_ok=True)

    monkeypatch.setattr(runner, "_checked", run)
    for _ in range(2):
        assert runner.set_up(tmp_path / "env", "tf_keras") == tmp_path / "env" / "bin" / "python"
    assert [command[-1] for command in commands] == [str(tmp_path / "env"), "pip", "tensorboard", "tf-agents==0.19.*"]
    assert json.loads((tmp_path / "env" / ".ready").read_text("utf-8"))[0] == list(PACKAGES["tf_keras"])


def test_every_program_of_the_catalogue_is_a_function_of_its_module() -> None:
    assert len(PROGRAMS) >= 30
    for program in PROGRAMS.values():
        tree = ast.parse((FOLDER / f"{program.module}.py").read_text("utf-8"))
        assert program.function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
