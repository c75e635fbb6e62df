"""The processes that the demonstration runs its parts in: `result_of`, `results_of`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, TextIO

from mixdown.cli.common import write_line
from mixdown.cli.interrupt import children
from mixdown.errors import MixdownError


def result_of(part: str, *arguments: str) -> Any:  # noqa: ANN401 - each part has a result of its own
    """Run a part in a process of its own, show its lines, and return its result.

    Raises:
        MixdownError: it failed.
    """
    (result,) = results_of([part, *arguments])
    return result


def results_of(*parts: Sequence[str]) -> list[Any]:
    """The same of several parts, each a name with arguments, which run side by side."""
    with ExitStack() as files:
        complaints = [files.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8")) for _ in parts]
        command = [sys.executable, "-m", "mixdown.cli.demo_training"]
        started = [_started([*command, *part], file) for part, file in zip(parts, complaints, strict=True)]
        return [_result(part[0], child, file) for part, child, file in zip(parts, started, complaints, strict=True)]


def _result(part: str, child: subprocess.Popen[str], complaints: TextIO) -> Any:  # noqa: ANN401 - see above
    result = None
    with child:
        for line in child.stdout or ():
            if line.startswith(("{", "[")):
                result = json.loads(line)
            else:
                write_line(line.rstrip("\n"))
    children.discard(child)
    if child.returncode or result is None:
        complaints.seek(0)
        raise MixdownError(f"The part {part!r} of the demonstration failed:\n{complaints.read()[-2000:]}")
    return result


def _started(command: Sequence[str], complaints: TextIO) -> subprocess.Popen[str]:
    """A child that Ctrl-C does not reach, in a group of its own: this process ends it, and it ends if this one does."""
    # oneDNN has float32 kernels that keep less in memory, and none for float16 on most CPUs: compare like with like.
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "MIXDOWN_LOG": "error", "TF_ENABLE_ONEDNN_OPTS": "0"}
    environment = {**os.environ, **quiet}
    pipe = subprocess.PIPE
    child = subprocess.Popen(  # noqa: S603 - our own interpreter
        command, stdin=pipe, stdout=pipe, stderr=complaints, text=True, env=environment, process_group=0
    )
    children.add(child)
    return child
