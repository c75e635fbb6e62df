"""Rooms are entered by public names, and ARCHITECTURE.md has the walks that `tools/walks.py` records."""

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests import fresh
from tools import walks

ARCHITECTURE = Path(__file__).parents[2] / "ARCHITECTURE.md"
FLOWS = list(walks.USES)


@pytest.fixture(scope="module")
def recorded() -> dict[str, dict[str, Any]]:
    """The walks of this source, from a fresh process: TensorFlow has not started in it when it is copied."""
    command = [*fresh.python(), walks.__file__, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own interpreter
    assert done.stdout, done.stderr[-3000:]
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("flow", FLOWS)
def test_no_room_is_entered_by_a_private_name(flow: str, recorded: dict[str, dict[str, Any]]) -> None:
    assert recorded[flow]["private"] == []


@pytest.mark.parametrize("flow", FLOWS)
def test_the_architecture_page_has_the_walk(flow: str, recorded: dict[str, dict[str, Any]]) -> None:
    assert has_line(ARCHITECTURE.read_text("utf-8"), recorded[flow]["line"]), recorded[flow]["line"]


def has_line(page: str, line: str) -> bool:
    """Whether a page has a walk, all of it and no more; it may be broken into several lines."""
    folded = " ".join(page.replace("`", " ").split())
    return re.search(rf"(?<!\S){re.escape(line)}(?! >)(?!\S)", folded) is not None


@pytest.mark.parametrize(
    ("page", "there"),
    [
        ("```\nread: a > b.c >\n      d\n```\n", True),
        ("* `read: a > b.c > d`\n", True),
        ("read: a > b.c > d > e\n", False),
        ("read: a > b.c\n", False),
        ("read: a > d > b.c\n", False),
    ],
)
def test_a_walk_that_is_out_of_date_is_noticed(*, page: str, there: bool) -> None:
    assert has_line(page, "read: a > b.c > d") is there


TINY = {
    "__init__.py": "def public(): ...\n",
    "left/__init__.py": "",
    "left/door.py": """
from contextlib import contextmanager
from tinyhouse import public
from tinyhouse.right import inner, rear
from tinyhouse.right.deep import down
def enter():
    public()
    _step()
    rear.call_back(lambda: inner())
    with rear.scope():
        list(rear.numbers())
    rear.Thing()._touch()
    rear._secret()
    down.go()
def _step(): ...
""",
    "right/__init__.py": "def inner(): ...\n",
    "right/rear.py": """
from contextlib import contextmanager
def call_back(function): function()
@contextmanager
def scope(): yield
def numbers(): yield from (1, 2, 3)
class Thing:
    def __init__(self): ...
    def _touch(self): ...
def _secret(): ...
""",
    "right/deep/__init__.py": "",
    "right/deep/down.py": "from tinyhouse.right import rear\ndef go(): rear.call_back(print)\n",
}


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> walks.Recorder:
    """What is recorded of a call of `enter` in a tiny package."""
    for name, text in TINY.items():
        path = tmp_path / "tinyhouse" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    door = importlib.import_module("tinyhouse.left.door")
    recorder = walks.Recorder(tmp_path / "tinyhouse")
    with recorder.watching():
        door.enter()
    for name in [name for name in sys.modules if name.partition(".")[0] == "tinyhouse"]:
        del sys.modules[name]
    return recorder


def test_rooms_are_noted_in_order_and_crossings_with_their_functions(recorder: walks.Recorder) -> None:
    assert list(recorder.rooms) == ["left", "right", "right.deep"]
    assert {str(crossing): count for crossing, count in recorder.crossings.items()} == {
        "user -> left.door.enter": 1,
        "left -> tinyhouse.public": 1,
        "left -> right.rear.call_back": 1,
        "left -> right.inner": 1,
        "left -> right.rear.scope": 1,
        "left -> right.rear.numbers": 1,
        "left -> right.rear.Thing.__init__": 1,
        "left -> right.rear.Thing._touch": 1,
        "left -> right.rear._secret": 1,
        "left -> right.deep.down.go": 1,
        "right.deep -> right.rear.call_back": 1,
    }


def test_private_crossings_are_told_apart(recorder: walks.Recorder) -> None:
    walk = walks.Walk("enter", list(recorder.rooms), recorder.crossings)
    assert walk.private == ["left -> right.rear.Thing._touch", "left -> right.rear._secret"]
    assert walk.line == "enter: left > right > right.deep"


def test_what_a_framework_calls_is_no_private_crossing() -> None:
    assert not walks.Crossing("Keras", "loss_scaling", "keras3.Optimizer._update").private
    assert walks.Crossing("calls", "loss_scaling", "keras3._Hidden.update").private
