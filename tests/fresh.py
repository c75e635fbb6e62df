"""A Python that starts with TensorFlow imported: `python()` stands where a test would write `sys.executable`.

Importing TensorFlow and the two Kerases takes seconds. A server imports them once for a test process and does nothing
else, so that a copy of it (a fork) is as good as a new interpreter which has executed `import tensorflow, keras,
tf_keras`. The command that `python()` returns asks the server for a copy, which takes over the command's arguments,
environment, folder and standard streams; the exit code comes back. If the command is killed, so is the copy.

Not for tests of what an import does, nor for variables that Python or TensorFlow read when they start, such as
PYTHONHASHSEED and TF_USE_LEGACY_KERAS: these need `sys.executable`.
"""

import atexit
import contextlib
import functools
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

OPTION = "--serve"
WAIT = 120.0  # seconds until a server that does not come up is given up
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3"}
PROMPT = 0.02  # seconds between two looks at whether a copy has ended


@functools.cache
def python() -> list[str]:
    """Start the server, once for this process; returns the command that stands for an interpreter."""
    path = f"{tempfile.mkdtemp(prefix='mixdown-fresh-')}/socket"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, __file__, OPTION, path]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment | QUIET)  # noqa: S603 - this file

    def end() -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.communicate(timeout=10)  # its standard input ends, which ends it
        server.kill()

    atexit.register(end)
    assert server.stdout is not None
    assert select.select([server.stdout], [], [], WAIT)[0], "the server did not start"
    assert server.stdout.readline() == b"ready\n"
    return [sys.executable, "-I", "-S", __file__, path]


def ask(path: str, arguments: list[str]) -> int:
    """Let the server run a copy of itself with these arguments; returns its exit code once it has ended."""
    request = {"arguments": arguments, "environment": dict(os.environ), "folder": str(Path.cwd())}
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(path)
        socket.send_fds(server, [b"?"], [0, 1, 2])
        server.sendall(json.dumps(request).encode() + b"\n")
        answer = server.recv(100)
    return int(answer or 1)


def serve(path: str) -> dict[str, Any]:
    """Answer requests until standard input ends; returns only in a copy: with what the copy is to run."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        os.write(1, b"ready\n")
        while True:
            asked, _, _ = select.select([listener.fileno(), 0], [], [])
            _reap()
            if 0 in asked:  # this is the end of it: nothing is ever written there
                Path(path).unlink()
                Path(path).parent.rmdir()
                os._exit(0)
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                return _supervise(connection)
            connection.close()


def _reap() -> None:
    """Take note of supervisors that have ended, so that their time counts as the server's."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _supervise(connection: socket.socket) -> dict[str, Any]:
    """Make the copy and wait for it; returns in the copy."""
    _, streams, _, _ = socket.recv_fds(connection, 1, 3)
    with connection.makefile("rb") as lines:
        request: dict[str, Any] = json.loads(lines.readline())
    copy = os.fork()
    if copy == 0:
        connection.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        return request
    for number, stream in enumerate(streams):  # whoever reads the copy's output waits for the copy alone
        os.close(stream)
        os.close(number)
    ended = 0
    while not ended:
        if select.select([connection], [], [], PROMPT)[0]:  # whoever asked is gone
            os.kill(copy, signal.SIGKILL)
            os.waitpid(copy, 0)
            os._exit(1)
        ended, status = os.waitpid(copy, os.WNOHANG)
    connection.sendall(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def run(arguments: list[str], environment: dict[str, str], folder: str) -> NoReturn:
    """Do what `python` does with these arguments: `[-W ignore] (-c CODE | -m MODULE | SCRIPT) ...`."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    if arguments[:2] == ["-W", "ignore"]:
        warnings.simplefilter("ignore")
        arguments = arguments[2:]
    code = 1
    try:
        _execute(arguments[0], arguments[1:], environment.get("PYTHONPATH", ""))
        code = 0
    except SystemExit as done:
        code = done.code if isinstance(done.code, int) else int(done.code is not None)
        if isinstance(done.code, str):
            sys.stderr.write(f"{done.code}\n")
    except BaseException:  # noqa: BLE001 - printed, as Python does
        traceback.print_exc()
    threading._shutdown()  # type: ignore[attr-defined]  # what Python does at its end, without taking all modules apart
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _execute(kind: str, rest: list[str], path: str) -> None:
    first = "" if kind in ("-c", "-m") else str(Path(kind).resolve().parent)
    sys.path[:1] = [first, *filter(None, path.split(os.pathsep))]
    if kind == "-c":
        main = sys.modules["__main__"] = ModuleType("__main__")
        sys.argv = ["-c", *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), main.__dict__)  # noqa: S102 - a script of our tests
    elif kind == "-m":
        sys.argv = ["-m", *rest[1:]]
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = [kind, *rest]
        runpy.run_path(kind, run_name="__main__")


def main() -> None:
    """Be the server, or the command that asks it."""
    if sys.argv[1] == OPTION:
        filters = list(warnings.filters)
        here = sys.path.pop(0)  # its folders jax and tensorflow must not pass for libraries that are not installed
        import keras  # noqa: PLC0415 - the server alone needs these
        import tensorflow  # noqa: ICN001, PLC0415
        import tf_keras  # noqa: PLC0415

        assert keras
        assert tensorflow
        assert tf_keras
        sys.path.insert(0, here)
        warnings.filters[:] = filters  # type: ignore[index]  # as at the start of Python
        gc.collect()
        gc.freeze()  # copies need not search what they share
        run(**serve(sys.argv[2]))
    code = ask(sys.argv[1], sys.argv[2:])
    if code < 0:
        with contextlib.suppress(OSError):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main()
