"""The processes that the demonstration runs its parts in: `result_of`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import Any

from mixdown.cli.common import write_line
from mixdown.cli.interrupt import children
from mixdown.errors import MixdownError


def result_of(part: str, *arguments: str) -> Any:  # noqa: ANN401 - each part has a result of its own
    """Run a part in a process of its own, show its lines, and return its result.

    Raises:
        MixdownError: it failed.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8") as complaints:
        child = _started([sys.executable, "-m", "mixdown.cli.demo_training", part, *arguments], complaints)
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


def _started(command: list[str], complaints: Any) -> subprocess.Popen[str]:  # noqa: ANN401 - a file
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
