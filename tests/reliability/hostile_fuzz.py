"""Sound graphs and models with their bytes damaged at random, in a process of its own. Run with `fuzzed`.

Hypothesis chooses the damage; whatever a command then does, it must end well or refuse in one message.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests import fresh
from tests.reliability.hostile_graphs import UGLY
from tests.reliability.hostile_lab import ADDRESSES, ROOT, TIMEOUT, refused, run

NUMBERS = st.sampled_from([0, 1, -1, 2, 3, 7, 19, 21, 22, 101, 2**15, 2**31 - 1, -(2**31), 2**40, 2**62, -(2**62)])
NAMES = ["", "x", "Const", "MatMul", "While", "Identity", "Cast", "Placeholder", "^x", "x:1", "m:0:0", "T"]
TEXTS = st.sampled_from([*NAMES, UGLY, "../../outside", "cond:output:0", "9" * 5000]) | st.text(max_size=5)
COMMANDS = {
    "graph": (["explain", "case.pb"], ["convert", "case.pb", "out.pb", "--weights", "low", "--overwrite"]),
    "model": (["explain", "case"], ["convert", "case", "out", "--weights", "low", "--io", "low", "--overwrite"]),
}


def fuzzed(kind: str, folder: Path, examples: int) -> None:
    """Damage a "graph" or a "model" so many times, and try both commands on each."""
    done = subprocess.run(  # noqa: S603 - our own script
        [*fresh.python(), "-m", "tests.reliability.hostile_fuzz", kind, str(examples)],
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/src", "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stderr[-6000:]}"


@st.composite
def edits(draw: st.DrawFn, kind: Any, data: bytes) -> bytes:
    """The bytes of a message in which a few fields, anywhere, have other values, are gone or stand there twice."""
    message = kind.FromString(data)
    for _ in range(draw(st.integers(1, 4))):
        _edit(draw, message)
    return bytes(message.SerializeToString())


def _edit(draw: st.DrawFn, message: Any) -> None:
    fields = message.ListFields()
    if not fields:
        return
    field, value = draw(st.sampled_from(fields))
    if draw(st.integers(0, 30)) == 0:
        message.ClearField(field.name)
    elif field.message_type is None:
        _set(draw, message, field, value)
    elif hasattr(value, "ListFields"):
        _edit(draw, value)
    elif hasattr(value, "items"):
        _edit_map(draw, value)
    else:
        _edit_list(draw, value)


def _edit_map(draw: st.DrawFn, value: Any) -> None:
    key = draw(st.sampled_from(sorted(value)))
    if draw(st.integers(0, 8)) == 0:
        del value[key]
    elif hasattr(value[key], "ListFields"):
        _edit(draw, value[key])
    else:
        value[key] = draw(TEXTS)


def _edit_list(draw: st.DrawFn, value: Any) -> None:
    at = draw(st.integers(0, len(value) - 1))
    match draw(st.integers(0, 12)):
        case 0:
            del value[at]
        case 1:
            value.add().CopyFrom(value[at])
        case _:
            _edit(draw, value[at])


def _set(draw: st.DrawFn, message: Any, field: Any, value: Any) -> None:
    several = not isinstance(value, str | bytes | int | float)
    sample = value[0] if several else value
    new: Any = draw(NUMBERS)
    if isinstance(sample, str | bytes):
        new = draw(TEXTS).encode() if isinstance(sample, bytes) else draw(TEXTS)
    elif isinstance(sample, bool | float):
        new = type(sample)(new)
    try:
        if several:
            value[draw(st.integers(0, len(value) - 1))] = new
        else:
            setattr(message, field.name, new)
    except ValueError:  # out of range for this field
        message.ClearField(field.name)


@st.composite
def damages(draw: st.DrawFn, data: bytes) -> bytes:
    """The bytes with a part cut out, moved, or written over."""
    places = st.integers(0, len(data) - 1)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(places)
        match draw(st.sampled_from(["flip", "write", "cut", "copy", "end"])):
            case "flip":
                data = data[:at] + bytes([data[at % len(data)] ^ 1 << draw(st.integers(0, 7))]) + data[at + 1 :]
            case "write":
                data = data[:at] + draw(st.binary(max_size=9)) + data[at + draw(st.integers(0, 9)) :]
            case "cut":
                data = data[:at] + data[at + draw(st.integers(1, 64)) :]
            case "copy":
                start = draw(places)
                data = data[:at] + data[start : start + draw(st.integers(1, 64))] + data[at:]
            case "end":
                data = data[: max(at, 1)]
        data = data or b"\0"
    return data


def _graph() -> bytes:
    import tensorflow as tf  # noqa: PLC0415 - only the child needs it

    @tf.function(input_signature=[tf.TensorSpec((4, 4), tf.float32)])
    def step(x: Any) -> Any:
        kept = tf.TensorArray(tf.float32, 3)
        for at in tf.range(3):
            kept = kept.write(at, tf.matmul(x, x) if tf.reduce_sum(x) > 0 else x)
        return tf.nn.softmax(tf.reshape(kept.stack(), (-1, 4)) @ tf.ones((4, 4)))

    return bytes(step.get_concrete_function().graph.as_graph_def().SerializeToString())


def _messages() -> dict[str, Any]:
    from tensorflow.core.framework import graph_pb2  # noqa: PLC0415 - only the child needs TensorFlow
    from tensorflow.core.protobuf import saved_model_pb2  # noqa: PLC0415 - likewise

    return {"graph": graph_pb2.GraphDef, "model": saved_model_pb2.SavedModel}


def _prepared(kind: str) -> tuple[bytes, Path]:
    """What is damaged, and the file that it goes to."""
    from tests.reliability.hostile_models import BINARY, sound  # noqa: PLC0415 - only the child needs TensorFlow

    if kind == "graph":
        return _graph(), Path("case.pb")
    shutil.copytree(sound(Path.cwd()), "case")
    return Path("case", BINARY).read_bytes(), Path("case", BINARY)


def _main(kind: str, examples: int) -> None:
    data, target = _prepared(kind)
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    message = _messages()[kind]

    @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(edits(message, data) | edits(message, data) | damages(data))
    def law(damaged: bytes) -> None:
        target.write_bytes(damaged)
        for command in COMMANDS[kind]:
            assert refused(run(command)) == ""

    law()


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]))
