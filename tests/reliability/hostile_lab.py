"""The command line in a process of its own, with little memory, fed what anybody may have written. Start with `tried`.

The process also has a Python function that graphs can name; whoever runs it leaves a file behind.
"""

from __future__ import annotations

import io
import json
import os
import resource
import subprocess
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

from tests import fresh

ROOT = Path(__file__).parents[2]
TIMEOUT = 240.0
ADDRESSES = 8 * 2**30  # TensorFlow alone reserves about half of it
GROWTH = 2**30  # how much memory all inputs together may take, in bytes

CANARY = "canary"  # the file that appears in the folder if the function is run
PROGRESS = "mixdown: ["  # how lines begin that only say how far a command is
RUNNABLE = "pyfunc_0"  # what graphs call the function


class Trial(NamedTuple):
    """One command, and what came of it."""

    command: list[str]
    code: int | None  # None if it raised
    out: str
    said: str
    raised: str

    @property
    def text(self) -> str:
        """All that a terminal would have got."""
        return self.out + self.said


def tried(folder: Path, commands: list[list[str]]) -> list[Trial]:
    """Run commands one after the other in one process, whose current folder is `folder`."""
    done = subprocess.run(  # noqa: S603 - our own script
        [*fresh.python(), "-m", "tests.reliability.hostile_lab"],
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/src", "TF_CPP_MIN_LOG_LEVEL": "3", "COLUMNS": "200"},
    )
    trials = [Trial(*json.loads(line)) for line in done.stdout.splitlines()]
    missed = commands[len(trials)] if len(trials) < len(commands) else None
    assert done.returncode == 0, f"{missed}\n{done.stderr[-3000:]}"
    return trials


def refused(trial: Trial) -> str:
    """What is wrong with the way a command ended, "" if it did it well or refused with one plain message."""
    if trial.raised:
        return trial.raised
    if any(not (char.isprintable() or char == "\n") for char in trial.text):
        return f"control characters: {trial.text!r}"
    if trial.code not in (0, 1, 2):
        return f"exit code {trial.code}"
    messages = [line for line in trial.said.splitlines() if not line.startswith(PROGRESS)]
    if trial.code == 2 and not (len(messages) == 1 and messages[0].startswith("mixdown: ")):
        return f"not one message: {trial.said!r}"
    return ""


def run(command: list[str]) -> Trial:
    """One command, in this process."""
    from mixdown import cli  # noqa: PLC0415 - only the child needs it

    out, said, code, raised = io.StringIO(), io.StringIO(), None, ""
    with redirect_stdout(out), redirect_stderr(said):
        try:
            code = cli.main(command)
        except SystemExit as left:
            code = int(left.code or 0)
        except BaseException:  # noqa: BLE001 - whatever it is, the test will say so
            raised = traceback.format_exc()[-3000:]
    return Trial(command, code, out.getvalue()[-100_000:], said.getvalue()[-100_000:], raised)


def _main() -> None:
    import numpy as np  # noqa: PLC0415 - only the child needs it
    import tensorflow as tf  # noqa: PLC0415 - likewise

    def touch(_: Any) -> Any:
        Path(CANARY).touch()
        return np.array([4, 4], np.int32)

    with tf.Graph().as_default():
        made = tf.compat.v1.py_func(touch, [tf.constant(0)], tf.int32, stateful=False)
        assert made.op.get_attr("token") == RUNNABLE.encode()
        commands = json.load(sys.stdin)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
        for command in commands:
            print(json.dumps(run(command)), flush=True)  # noqa: T201 - the answer
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert grown < GROWTH, f"took {grown} bytes"


if __name__ == "__main__":
    _main()
