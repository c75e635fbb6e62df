"""Prints which packages five uses of mixdown pass through; `make walks` runs it. Start with `recorded`.

A use is run once, each in a fresh process, while every Python call is watched. Printed for each are

* the walk: the packages of mixdown ("rooms") in the order in which they are first entered, on one line,
  `tf.function call: calls > writing > reading`; ARCHITECTURE.md has these lines;
* the crossings: from which room each other room is entered by which function, and how often. TensorFlow, Keras and the
  caller's own code are outside. Functions that a room hands to another one, such as lambdas, are not crossings;
* the crossings by a private name, that is, one with a leading underscore. The exit code is 1 if there are any.

As a script: `python tools/walks.py [--json]`.
"""

import argparse
import dis
import functools
import inspect
import json
import os
import sys
import tempfile
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

import keras
import numpy as np
import tensorflow as tf

import mixdown

PACKAGE: Final = Path(__file__).parents[1] / "src" / "mixdown"
HOST: Final = "tensorflow"  # its rooms are called by their own names where no other room has these
LIBRARIES: Final = {"tensorflow": "TensorFlow", "keras": "Keras", "tf_keras": "Keras"}
CALLER: Final = "user"
OUTSIDE: Final = frozenset({CALLER, *LIBRARIES.values()})


class Crossing(NamedTuple):
    """A call from one room into another: who calls, the room that is entered, and the function by which."""

    caller: str
    room: str
    function: str  # with its module, and its class if it has one

    @property
    def private(self) -> bool:
        """Whether one room enters another by a name with a leading underscore."""
        names = self.function.split(".")
        return self.caller not in OUTSIDE and any(name.startswith("_") and not name.endswith("__") for name in names)

    def __str__(self) -> str:
        """Return the crossing as one line."""
        return f"{self.caller} -> {self.room}.{self.function}"


class Walk(NamedTuple):
    """What one use passed through."""

    name: str
    rooms: list[str]
    crossings: Counter[Crossing]

    @property
    def line(self) -> str:
        """The walk as ARCHITECTURE.md has it."""
        return f"{self.name}: {' > '.join(self.rooms)}"

    @property
    def private(self) -> list[str]:
        """The crossings by a private name."""
        return [str(crossing) for crossing in sorted(self.crossings) if crossing.private]


class Recorder:
    """Watches calls and notes rooms and crossings. Names of rooms come from the folders of the package."""

    def __init__(self, package: Path = PACKAGE) -> None:
        self.rooms: dict[str, None] = {}  # in the order of first entry
        self.crossings: Counter[Crossing] = Counter()
        self._package = f"{package}{os.sep}"
        self._root = package.name
        self._names = _room_names(package)
        self._places: dict[CodeType, tuple[str, str]] = {}  # of code seen already: its room and function

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the calls of this thread, and of threads that are started meanwhile."""
        threading.setprofile(self._event)
        sys.setprofile(self._event)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _event(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call" or not frame.f_code.co_filename.startswith(self._package):
            return
        room, function = self._place(frame.f_code)
        if not function:
            return
        if room != self._root:  # what lies in no package below it, such as errors and messages, is everywhere
            self.rooms.setdefault(room)
        caller = self._caller(frame)
        if caller != room and "<locals>" not in function and not _resumed(frame):
            self.crossings[Crossing(caller, room, function)] += 1

    def _place(self, code: CodeType) -> tuple[str, str]:
        """The room of a piece of code, and its function; "" if it is the body of a module or class."""
        if code not in self._places:
            parts = Path(code.co_filename.removeprefix(self._package)).with_suffix("").parts
            is_function = code.co_flags & inspect.CO_NEWLOCALS
            module = () if parts[-1] == "__init__" else parts[-1:]
            function = ".".join([*module, code.co_qualname]) if is_function else ""
            self._places[code] = self._names[".".join(parts[:-1])], function
        return self._places[code]

    def _caller(self, frame: FrameType) -> str:
        """The nearest room or library up the stack; Python's own library is passed over."""
        above = frame.f_back
        while above is not None:
            path = above.f_code.co_filename
            if path.startswith(self._package):
                return self._place(above.f_code)[0]
            library = path.partition("site-packages/")[2].partition("/")[0]
            if library in LIBRARIES:
                return LIBRARIES[library]
            above = above.f_back
        return CALLER


def _resumed(frame: FrameType) -> bool:
    """Whether a generator is not started here but goes on."""
    return bool(frame.f_code.co_flags & inspect.CO_GENERATOR) and frame.f_lasti > _start(frame.f_code)


@functools.cache
def _start(code: CodeType) -> int:
    """The instruction at which a generator is first entered."""
    return next(each.offset for each in dis.get_instructions(code) if each.opname == "RESUME")


def _room_names(package: Path) -> dict[str, str]:
    """Dotted folder below the package -> what the room is called; the package itself is called by its own name."""
    folders = [".".join(path.parent.relative_to(package).parts) for path in package.rglob("__init__.py")]
    short = {folder: folder.removeprefix(f"{HOST}.") for folder in folders}
    return {folder: folder if short[folder] in folders else short[folder] for folder in folders} | {"": package.name}


def a_function(_: Path, recorder: Recorder) -> None:
    """Call a tf.function under `mixdown.rewriting` for the first time."""
    dense = tf.function(lambda x: tf.nn.relu(tf.matmul(x, x)))
    with mixdown.rewriting(mixdown.Policy(devices="all")), recorder.watching():
        dense(tf.ones((4, 4)))


def a_graph(_: Path, recorder: Recorder) -> None:
    """Rewrite a graph that was written down."""
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, (4, 4))
        tf.nn.relu(tf.matmul(x, x), name="out")
    graph_def, rewrite, policy = graph.as_graph_def(), mixdown.rewrite_graph_def, mixdown.Policy(devices="all")
    with recorder.watching():
        rewrite(graph_def, ["out"], policy=policy)


def a_training_step(_: Path, recorder: Recorder) -> None:
    """Take one step of a Keras 3 model with the optimizer that `enable_mixed_precision_graph_rewrite` returns."""
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, "relu"), keras.layers.Dense(1)])
    policy = mixdown.Policy(devices="all")
    optimizer = mixdown.enable_mixed_precision_graph_rewrite(keras.optimizers.SGD(), policy=policy)
    model.compile(optimizer, "mse")
    x, y = np.ones((8, 4), np.float32), np.ones((8, 1), np.float32)
    with recorder.watching():
        model.train_on_batch(x, y)


def a_session(_: Path, recorder: Recorder) -> None:
    """Make a session and run it."""
    with tf.Graph().as_default():
        out = tf.nn.relu(tf.matmul(tf.ones((4, 4)), tf.ones((4, 4))))
        with mixdown.rewriting(mixdown.Policy(devices="all")), recorder.watching(), tf.compat.v1.Session() as session:
            session.run(out)


def a_conversion(folder: Path, recorder: Recorder) -> None:
    """Convert a SavedModel."""
    module: Any = tf.Module()
    module.weight = tf.Variable(tf.ones((4, 4)))
    module.call = tf.function(lambda x: tf.nn.relu(tf.matmul(x, module.weight)))
    signature = module.call.get_concrete_function(tf.TensorSpec((None, 4), tf.float32))
    tf.saved_model.save(module, str(folder / "source"), signatures=signature)
    convert, policy = mixdown.convert_saved_model, mixdown.Policy(devices="all")
    with recorder.watching():
        convert(str(folder / "source"), str(folder / "target"), policy=policy)


USES: Final[dict[str, Callable[[Path, Recorder], None]]] = {
    "tf.function call": a_function,
    "rewrite_graph_def": a_graph,
    "Keras 3 step": a_training_step,
    "Session.run": a_session,
    "convert_saved_model": a_conversion,
}


def recorded(name: str) -> Walk:
    """Run one use in a copy of this process, which has imported TensorFlow but not started it; returns its walk."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "walk.json"
        child = os.fork()
        if child == 0:
            _child(name, Path(folder), out)
        os.waitpid(child, 0)
        if not out.exists():
            raise RuntimeError(f"{name} failed, as printed above")
        rooms, crossings = json.loads(out.read_text("utf-8"))
    return Walk(name, rooms, Counter({Crossing(*crossing): count for crossing, count in crossings}))


def _child(name: str, folder: Path, out: Path) -> None:
    recorder = Recorder()
    try:
        USES[name](folder, recorder)
        out.write_text(json.dumps([list(recorder.rooms), list(recorder.crossings.items())]), "utf-8")
    except BaseException:  # noqa: BLE001 - the parent goes on, and raises
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(0)


def walks() -> list[Walk]:
    """Record every use."""
    return [recorded(name) for name in USES]


def main(arguments: list[str]) -> int:
    """Print every walk; returns 1 if a crossing is by a private name."""
    parser = argparse.ArgumentParser(description="Print which packages five uses of mixdown pass through.")
    parser.add_argument("--json", action="store_true", help="print the lines and the private crossings, as JSON")
    as_json = parser.parse_args(arguments).json
    found = walks()
    if as_json:
        print(json.dumps({walk.name: {"line": walk.line, "private": walk.private} for walk in found}))
    else:
        print("\n\n".join(_text(walk) for walk in found))
    return int(any(walk.private for walk in found))


def _text(walk: Walk) -> str:
    crossings = [f"  {count:5} x {crossing}" for crossing, count in sorted(walk.crossings.items())]
    private = [f"  private: {crossing}" for crossing in walk.private]
    return "\n".join([walk.line, *crossings, *(private or ["  private: none"])])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
