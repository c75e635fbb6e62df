"""The README's own words, held to what happens."""

import os
import re
import subprocess
from pathlib import Path

from tests import fresh

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")


def run(script: str, cwd: Path) -> str:
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [*fresh.python(), "-c", script],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_the_report_in_the_readme_is_what_the_demo_prints(tmp_path: Path) -> None:
    printed = run((ROOT / "examples" / "rewrite_graph.py").read_text("utf-8"), tmp_path)
    shown = re.search(r"```\n(\d+ % of .*?)```", README, re.DOTALL)
    assert shown is not None
    assert shown[1] in printed
    assert (tmp_path / "mixdown-report.html").is_file()


def test_every_code_block_runs_and_the_first_one_trains(tmp_path: Path) -> None:
    """Pasted as it is, imports included."""
    script = (
        "import warnings; from pathlib import Path; from tests.documents import run_page\n"
        "warnings.simplefilter('ignore')\n"
        f"left = run_page(Path({str(ROOT / 'README.md')!r}))\n"
        "print('loss', left['model'].evaluate(left['x_train'], left['y_train'], verbose=0))"
    )
    assert "loss" in run(f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{script}", tmp_path)
