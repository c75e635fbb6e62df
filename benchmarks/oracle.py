"""TensorFlow's own mixed-precision pass, run from Python on any GraphDef: the reference for the parity tests.

`theirs` runs the pass; `differences` in `rewrite_difference` compares two rewrites of one graph. No GPU is needed: the
CPU mode of the pass, with its emulation of float16 switched off, uses the GPU's lists and procedure and really changes
types.
"""

import atexit
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import tensorflow as tf

# Grappler has no public Python interface (checked on 2.16 to 2.21: same module, same signature).
from tensorflow.python.grappler import tf_optimizer

OPTIMIZERS = {"float16": "auto_mixed_precision_cpu", "bfloat16": "auto_mixed_precision_onednn_bfloat16"}
EMULATE = "TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_EMULATE_FP16"
CPU = "/job:localhost/replica:0/task:0/device:CPU:0"


def theirs(graph_def: Any, fetches: Sequence[str], low: str) -> Any:
    """Return TensorFlow's rewrite of a graph; nodes without a device count as placed on the CPU.

    Args:
        graph_def: the graph; it is not changed.
        fetches: names of tensors or nodes that are fetched; at least one.
        low: "float16" or "bfloat16".

    Returns:
        A new GraphDef whose nodes have the same devices as before.
    """
    rewritten = optimize(placed(graph_def), fetches, low)
    restore_devices(rewritten, {node.name: node.device for node in graph_def.node})
    return rewritten


def placed(graph_def: Any) -> Any:
    """Copy a graph and place every node without a device on the CPU, as a session would."""
    copy = tf.compat.v1.GraphDef()
    copy.CopyFrom(graph_def)
    for node in copy.node:
        node.device = node.device or CPU
    return copy


def restore_devices(rewritten: Any, devices: dict[str, str]) -> None:
    """Undo the placement; an inserted cast gets the device of its producer."""
    for node in rewritten.node:
        origin = node.name if node.name in devices else node.input[0].split(":")[0]
        node.device = devices[origin]


def optimize(graph_def: Any, fetches: Sequence[str], low: str) -> Any:
    """Run the pass on a placed graph: for float16 in this process, for bfloat16 in one with oneDNN enabled."""
    if low == "float16":
        return run_pass(graph_def, fetches, low)
    request = (graph_def.SerializeToString(), tuple(fetches), low)
    return tf.compat.v1.GraphDef.FromString(onednn_process().ask(request))


def run_pass(graph_def: Any, fetches: Sequence[str], low: str) -> Any:
    """Call OptimizeGraph with the mixed-precision pass as the only optimizer."""
    config = tf.compat.v1.ConfigProto()
    options = config.graph_options.rewrite_options
    options.min_graph_nodes = -1
    options.meta_optimizer_iterations = 1
    options.fail_on_optimizer_errors = True
    options.optimizers.append(OPTIMIZERS[low])
    meta_graph = tf.compat.v1.MetaGraphDef(graph_def=graph_def)
    names = dict.fromkeys(fetch.split(":")[0] for fetch in fetches)
    meta_graph.collection_def["train_op"].node_list.value.extend(names)
    with real_half_types():
        return tf_optimizer.OptimizeGraph(config, meta_graph, verbose=False)


@contextmanager
def real_half_types() -> Iterator[None]:
    """Switch off the emulation of float16; the pass reads the environment variable at every call."""
    before = os.environ.get(EMULATE)
    os.environ[EMULATE] = "0"
    try:
        yield
    finally:
        os.environ.pop(EMULATE)
        if before is not None:
            os.environ[EMULATE] = before


class PassProcess:
    """A child process that runs the pass, because oneDNN must be enabled before TensorFlow starts."""

    def __init__(self) -> None:
        environment = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": "1", "CUDA_VISIBLE_DEVICES": "-1"}
        environment.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        self._child = subprocess.Popen(  # noqa: S603 - our own file
            [sys.executable, str(Path(__file__).resolve())],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        atexit.register(self.close)

    def ask(self, request: tuple[bytes, tuple[str, ...], str]) -> bytes:
        """Send one graph and return it rewritten; raises the error that the child process sends back."""
        assert self._child.stdin
        assert self._child.stdout
        pickle.dump(request, self._child.stdin)
        self._child.stdin.flush()
        answer: bytes | Exception = pickle.load(self._child.stdout)  # noqa: S301 - from our own child
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        """End the child process by closing its input."""
        for pipe in (self._child.stdin, self._child.stdout):
            assert pipe
            pipe.close()
        self._child.wait()


@cache
def onednn_process() -> PassProcess:
    """The child process, started on first use."""
    return PassProcess()


def next_request() -> tuple[bytes, tuple[str, ...], str] | None:
    """Read a request; None if the parent process has closed the pipe."""
    try:
        request: tuple[bytes, tuple[str, ...], str] = pickle.load(sys.stdin.buffer)  # noqa: S301 - from our own parent
    except EOFError:
        return None
    return request


def serve() -> None:
    """Answer requests until the input ends; nothing else may be written to standard output."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    while request := next_request():
        serialized, fetches, low = request
        answer: bytes | Exception
        try:
            graph_def = tf.compat.v1.GraphDef.FromString(serialized)
            answer = run_pass(graph_def, fetches, low).SerializeToString()
        except Exception as error:  # noqa: BLE001 - the parent raises it
            answer = RuntimeError(str(error))
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    serve()
