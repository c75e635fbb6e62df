"""Processes of their own for tests that need them: `started` starts one, `answer` waits for the last line it prints."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import subprocess
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests import fresh

ROOT = Path(__file__).parents[2]
TIMEOUT = 300.0


def started(script: str, *arguments: str, **env: str) -> Any:
    """A script of this folder, running."""
    return subprocess.Popen(  # noqa: S603 - our own script
        [*fresh.python(), "-m", f"tests.reliability.{script}", *arguments],
        cwd=ROOT,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def answer(process: Any, timeout: float = TIMEOUT) -> Any:
    """The last line that a process printed, which is JSON."""
    return lines(process, timeout)[-1]


def lines(process: Any, timeout: float = TIMEOUT) -> list[Any]:
    """All lines that a process printed, which are JSON, once it has ended well."""
    try:
        printed, complaint = process.communicate(timeout=timeout)
    finally:
        process.kill()
    assert process.returncode == 0, complaint[-4000:]
    return [json.loads(line) for line in printed.splitlines()]


def lines_of_all(processes: list[Any]) -> list[list[Any]]:
    """The lines of processes that work together; none outlives a failure of another."""
    try:
        return [lines(process) for process in processes]
    finally:
        for process in processes:
            process.kill()


def killed_at(process: Any, line: str, times: int = 1) -> None:
    """Kill a process, as the operating system would, as soon as it has printed a line so many times."""
    watchdog = threading.Timer(TIMEOUT, process.kill)
    watchdog.start()
    try:
        seen = (printed for printed in process.stdout if printed.strip() == line)
        reached = len(list(itertools.islice(seen, times))) == times
    finally:
        watchdog.cancel()
        process.send_signal(signal.SIGKILL)
        _, complaint = process.communicate()
    assert reached, complaint[-4000:]
    assert process.returncode == -signal.SIGKILL


def worker_configs(count: int) -> list[str]:
    """The value of TF_CONFIG for each worker of a new cluster on this machine."""
    cluster = {"worker": [f"127.0.0.1:{port}" for port in free_ports(count)]}
    return [json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}}) for index in range(count)]


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
