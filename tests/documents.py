"""The code blocks of a Markdown page, and running them as a reader would. Start with `run_page`.

A fenced `python` block is executed; all blocks of a page share a namespace. Of a `console` block every line that begins
with `$ mixdown` is handed to the command line; exit code 2 means that it failed. A `text` block right behind one of
these shows what it prints; `...` in it stands for anything. A block is left out only if the line above it says why:
`<!-- not run: reason -->`.

As a script: runs the pages named on the command line, each in a fresh process and folder, and prints JSON: page ->
what went wrong, "" if nothing did.
"""

import contextlib
import io
import json
import os
import re
import shlex
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

FENCE = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^\n]+) -->\n)?```(?P<language>[a-z]+)\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE
)
EXECUTED = ("python", "console")


class Block(NamedTuple):
    """One block to execute, and what it should print; "" if the page does not say."""

    language: str
    code: str
    line: int
    shown: str
    reason: str  # why it is not run, "" if it is


def blocks(page: str) -> Iterator[Block]:
    """The blocks of a page that can be executed, in order."""
    found = list(FENCE.finditer(page))
    for each, following in zip_longest(found, found[1:]):
        if each["language"] in EXECUTED:
            adjacent = following is not None and not page[each.end() : following.start()].strip()
            shown = following["code"] if following and adjacent and following["language"] == "text" else ""
            line = page.count("\n", 0, each.start("code")) + 1
            yield Block(each["language"], each["code"], line, shown, each["reason"] or "")


def run_page(path: Path, setting: str = "") -> dict[str, Any]:
    """Execute every block of a page, after a setting that it takes for granted; returns the names it leaves behind."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(setting, namespace)  # noqa: S102 - our own pages
    for block in blocks(path.read_text("utf-8")):
        if not block.reason:
            printed = _execute(block, namespace, path)
            assert agrees(block.shown, printed), f"{path.name}:{block.line} prints\n{printed}"
    return namespace


def agrees(shown: str, printed: str) -> bool:
    """Whether what is shown is printed, in order; `...` stands for anything."""
    parts = [re.escape(part.strip("\n")) for part in shown.split("...")]
    plain = "\n".join(line.rstrip() for line in printed.splitlines())
    return re.search(".*".join(parts), plain, re.DOTALL) is not None


def _execute(block: Block, namespace: dict[str, Any], path: Path) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        if block.language == "python":
            code = "\n" * (block.line - 1) + block.code  # so that a traceback names the line of the page
            exec(compile(code, str(path), "exec"), namespace)  # noqa: S102 - our own pages
        else:
            for line in re.findall(r"^\$ mixdown (.*)$", block.code, re.MULTILINE):
                _command(line)
    return out.getvalue()


def _command(line: str) -> None:
    from mixdown.cli import main  # noqa: PLC0415 - readers of blocks need no command line

    try:
        code = main(shlex.split(line))
    except SystemExit as done:  # what --help and --version do
        code = int(done.code or 0)
    assert code in (0, 1), f"`mixdown {line}` failed with exit code {code}"


def in_fresh_process(path: Path) -> str:
    """Run a page in a copy of this process, in a folder of its own; returns what went wrong."""
    with tempfile.TemporaryDirectory() as folder:
        verdict = Path(folder) / "verdict"
        child = os.fork()  # TensorFlow is imported but has not started yet: a copy of it starts afresh
        if child == 0:
            _child(path, folder, verdict)
        os.waitpid(child, 0)
        return verdict.read_text("utf-8") if verdict.exists() else "the process died"


def _child(path: Path, folder: str, verdict: Path) -> None:
    os.chdir(folder)
    warnings.simplefilter("ignore")
    try:
        run_page(path)
        verdict.write_text("", "utf-8")
    except BaseException:  # noqa: BLE001 - told to the parent
        verdict.write_text(traceback.format_exc(), "utf-8")
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    import keras
    import sklearn.datasets
    import tensorflow as tf

    assert tf
    assert keras
    assert sklearn.datasets
    results = {page: in_fresh_process(Path(page).resolve()) for page in sys.argv[1:]}
    print(json.dumps(results))  # noqa: T201 - the answer
