"""The command line as a newcomer meets it: help, typos, exit codes."""

import subprocess
import sys
from pathlib import Path

import pytest

from mixdown import __version__, cli, compat


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["mixdown"])
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(compat, "install", installed.append)
    installed.clear()


installed: list[object] = []


def test_help_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["--help"])
    assert stopped.value.code == 0
    assert "mixdown run train.py --epochs 3" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--version"])
    assert capsys.readouterr().out == f"mixdown {__version__}\n"


TYPOS = {
    "no command": ([], "the following arguments are required: command"),
    "unknown command": (["runn"], "invalid choice: 'runn' (did you mean 'run'?): choose from demo, run, "),
    "unknown option": (
        ["explain", "--devcie", "A100", "model.keras"],
        "mixdown explain: error: unrecognized arguments: --devcie model.keras (did you mean '--device'?)",
    ),
    "an option and its value": (["doctor", "--lwo=float16"], "--lwo=float16 (did you mean '--low'?)"),
    "one argument too many": (["tune", "show", "all"], "unrecognized arguments: all\n"),
    "no script": (["run"], "the following arguments are required: script\n"),
    "unknown dtype": (["run", "--low", "float61", "x.py"], "invalid choice: 'float61'"),
}


@pytest.mark.parametrize("case", TYPOS)
def test_typo_gets_a_message_and_exit_code_2(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, message = TYPOS[case]
    with pytest.raises(SystemExit) as stopped:
        cli.main(arguments)
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


INTERRUPTED_WHILE_LOADING = """
import runpy, sys
class Interrupted:
    def find_spec(self, name, *_):
        if name == "mixdown.cli.doctor":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupted())
runpy.run_module("mixdown", run_name="__main__")
"""


def test_ctrl_c_while_the_commands_are_loaded_is_quiet_with_130() -> None:
    command = [sys.executable, "-c", INTERRUPTED_WHILE_LOADING]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own interpreter
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_missing_script_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "nowhere.py"]) == 2
    assert capsys.readouterr().err == "mixdown: There is no script 'nowhere.py'.\n"


def test_bad_devices_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script.py"
    script.write_text("", "utf-8")
    assert cli.main(["run", "--devices", "G P U", str(script)]) == 2
    assert "Unknown devices ('G P U',)" in capsys.readouterr().err


def test_script_gets_its_arguments_its_folder_and_main(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "neighbour.py").write_text("WORD = 'hello'\n", "utf-8")
    script = tmp_path / "script.py"
    script.write_text("import sys, neighbour\nprint(__name__, neighbour.WORD, *sys.argv[1:])\n", "utf-8")
    assert cli.main(["run", "--low", "bfloat16", str(script), "--low", "x"]) == 0
    assert capsys.readouterr().out == "__main__ hello --low x\n"
    assert [policy.low for policy in installed] == ["bfloat16"]  # type: ignore[attr-defined]


def test_script_that_fails_fails(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("raise SystemExit(3)\n", "utf-8")
    with pytest.raises(SystemExit) as stopped:
        cli.main(["run", str(script)])
    assert stopped.value.code == 3


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_an_interrupt_ends_every_command_quietly_with_130(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setitem(cli.COMMANDS, command, cli.COMMANDS[command]._replace(run=interrupted))
    arguments = {"run": ["x.py"], "explain": ["x"], "convert": ["x", "y"], "diff": ["x", "y"], "tune": ["show"]}.get(
        command, []
    )
    assert cli.main([command, *arguments]) == 130
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_the_help_of_every_command_shows_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main([command, "--help"])
    assert f"  mixdown {command}" in capsys.readouterr().out
