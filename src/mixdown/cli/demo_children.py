"""The processes that the demonstration runs in: `results` starts one, and `in_copy` copies it while it is fresh."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TextIO

from mixdown.cli.common import write_line
from mixdown.cli.interrupt import children
from mixdown.errors import MixdownError

# oneDNN has float32 kernels that keep less in memory, and none for float16 on most CPUs: compare like with like.
ENVIRONMENT = {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "MIXDOWN_LOG": "error",
    "TF_ENABLE_ONEDNN_OPTS": "0",
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",  # the copies share the GPU
    "MALLOC_MMAP_THRESHOLD_": str(2**18),  # glibc gives back at once what is freed: its caches would be measured, too
}


def results(*arguments: str) -> Iterator[Any]:
    """Run the parts in another process, show their lines, and return the result of each as it comes.

    Raises:
        MixdownError: a part failed.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8") as complaints, _started(arguments, complaints) as child:
        for line in child.stdout or ():
            if line.startswith(("{", "[")):
                yield json.loads(line)
            else:
                write_line(line.rstrip("\n"))
        children.discard(child)
        if child.wait():
            complaints.seek(0)
            raise MixdownError(f"A part of the demonstration failed:\n{complaints.read()[-2000:]}")


def _started(arguments: tuple[str, ...], complaints: TextIO) -> subprocess.Popen[str]:
    """A child that Ctrl-C does not reach, in a group of its own: this process ends it, and it ends if this one does."""
    command, pipe = [sys.executable, "-m", "mixdown.cli.demo_training", *arguments], subprocess.PIPE
    environment = {**os.environ, **ENVIRONMENT}
    child = subprocess.Popen(  # noqa: S603 - our own interpreter
        command, stdin=pipe, stdout=pipe, stderr=complaints, text=True, env=environment, process_group=0
    )
    children.add(child)
    return child


def end_with_parent() -> None:
    """From now on, leave when the process that started this one is gone: it holds the other end of stdin."""

    def wait() -> None:
        os.read(0, 1)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def in_copy(work: Callable[[], Any]) -> Callable[[], Any]:
    """Begin some work in a copy of this process, so that nothing is loaded twice; returns what waits for its result.

    Must be called before TensorFlow starts any threads, which would be missing in the copy. Only Linux copies a process
    safely; elsewhere the work is done here, when its result is asked for.
    """
    if sys.platform != "linux":
        return work
    reader, writer = os.pipe()
    copy = os.fork()
    if not copy:
        _answer(work, writer)
    os.close(writer)

    def result() -> Any:  # noqa: ANN401 - whatever the work returns
        with os.fdopen(reader, encoding="utf-8") as pipe:
            text = pipe.read()
        os.waitpid(copy, 0)
        return json.loads(text)  # which fails if the work has: its own complaint stands before

    return result


def _answer(work: Callable[[], Any], writer: int) -> NoReturn:
    try:
        end_with_parent()
        os.write(writer, json.dumps(work()).encode())
        os._exit(0)
    except BaseException:  # noqa: BLE001 - nothing of this copy may go on
        traceback.print_exc()
        os._exit(1)
