"""The laws that `tools/house.py` measures hold, and each of them notices the fault that it is there for."""

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from tools import house

HEADER = '"""What this holds."""\n'
BLOCK = "".join(f"value_{n} = {n}\n" for n in range(house.RUN))  # one duplicate, if it stands in two files


def package(folder: Path, files: Mapping[str, str]) -> Path:
    """Write a package called tiny; returns its folder."""
    for name, text in {"__init__.py": HEADER, **files}.items():
        path = folder / "tiny" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return folder / "tiny"


@pytest.fixture(scope="module")
def source() -> house.Source:
    return house.Source(house.PACKAGE)


@pytest.mark.parametrize("law", house.SOURCE_LAWS, ids=lambda law: law.__name__)
def test_the_source_keeps_the_law(law: Callable[[house.Source], house.Law], source: house.Source) -> None:
    found = law(source)
    assert found.faults == (), str(found)


def test_an_import_keeps_the_laws() -> None:
    assert [str(law) for law in house.import_laws(house.PACKAGE) if law.faults] == []


MANY = {f"room/module_{n}.py": HEADER for n in range(house.MOST_MODULES + 1)} | {"room/__init__.py": HEADER}
COPIES = {f"module_{n}.py": HEADER + f"first = {n}\n" + BLOCK for n in range(house.MOST_DUPLICATES + 2)}
ROOMS = {"left/__init__.py": HEADER, "right/__init__.py": HEADER, "left/b.py": "", "right/b.py": ""}
KINDS = {"rules/__init__.py": HEADER, "rules/some_kinds.txt": "If\nExp\n_Arg\n", "core/__init__.py": HEADER}

FAULTS: list[tuple[Callable[[house.Source], house.Law], dict[str, str], list[str]]] = [
    (house.modules_in_a_package, MANY, ["room holds 15"]),
    (house.import_cycles, {"a.py": "import tiny.b\n", "b.py": "from tiny import a\n"}, ["a -> b -> a (a knot of 2)"]),
    (
        house.import_cycles,
        {
            "a.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from tiny.b import B\n",
            "b.py": "class B:\n    def call(self):\n        from tiny.c import C\n        return C\n",
            "c.py": "from .a import A\n",
        },
        ["a -> b -> c -> a (a knot of 3)"],
    ),
    (
        house.import_cycles,
        {"room/__init__.py": "from tiny.room.a import A\n", "room/a.py": "from tiny.room import B\n"},
        ["room -> room.a -> room (a knot of 2)"],
    ),
    (
        house.sibling_cycles,
        ROOMS | {"left/a.py": "import tiny.right.a\n", "right/a.py": "import tiny.left.b\n"},
        ["in tiny: left -> right -> left (a knot of 2)"],
    ),
    (
        house.sibling_cycles,
        {"room/__init__.py": "", "room/a.py": "from .inner import b\n", "room/c.py": ""}
        | {"room/inner/__init__.py": "", "room/inner/b.py": "", "room/inner/d.py": "from ..a import A\n"},
        ["in room: a -> inner -> a (a knot of 2)"],
    ),
    (
        house.classes_defined_twice,
        {"a.py": "class Twin: ...\n", "b.py": "def make():\n    class Twin: ...\n"},
        ["Twin: a.py:1, b.py:2"],
    ),
    (
        house.duplicates,
        COPIES,
        [f"6 lines: module_0.py:3 and module_{n}.py:3: value_0 = 0" for n in range(1, house.MOST_DUPLICATES + 2)],
    ),
    (house.median_file, {"a.py": "\n" * 300, "b.py": "\n" * 301}, ["without __init__.py 300.5"]),
    (house.median_file, {"a.py": "\n" * 89}, ["without __init__.py 89"]),
    (house.longest_file, {"a.py": "\n" * 351, "b.py": "\n" * 350}, ["a.py:351"]),
    (
        house.op_kinds_in_core,
        KINDS | {"core/a.py": '"""An Exp."""\nkind = "Exp"\nlater = f"If {kind} is an _Arg or Experiment"\n'},
        ["core/a.py:2: Exp", "core/a.py:3: _Arg"],
    ),
    (house.op_kinds_in_core, KINDS | {"core/a.py": 'kind = "If"\n', "b.py": 'kind = "Exp"\n'}, ["core/a.py:1: If"]),
]


@pytest.mark.parametrize(("law", "files", "faults"), FAULTS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_fault_is_found_and_named(
    law: Callable[[house.Source], house.Law], files: dict[str, str], faults: list[str], tmp_path: Path
) -> None:
    assert list(law(house.Source(package(tmp_path, files))).faults) == faults


def test_comments_imports_and_white_space_do_not_hide_a_duplicate(tmp_path: Path) -> None:
    broken_up = BLOCK.replace("value_3 =", "# why\n\nfrom os import (\n    path,\n)\nvalue_3  =")
    files = {"a.py": BLOCK, "b.py": broken_up, "c.py": BLOCK.replace("value_3", "value_x")}
    assert house.duplicates(house.Source(package(tmp_path, files))).measured == "at most 8; 1"


def test_lines_are_not_joined_across_files(tmp_path: Path) -> None:
    half = BLOCK.splitlines(keepends=True)
    files = {"a.py": BLOCK, "b.py": "".join(half[:3]), "c.py": "".join(half[3:])}
    assert house.duplicates(house.Source(package(tmp_path, files))).measured == "at most 8; 0"


def test_an_import_is_seen_to_load_a_framework_and_to_touch_the_finders(tmp_path: Path) -> None:
    root = package(tmp_path, {"__init__.py": "import sys\nsys.modules['keras'] = sys\nsys.meta_path.append(None)\n"})
    _, frameworks, finders = house.import_laws(root)
    assert frameworks.faults == ("keras",)
    assert finders.measured == "no"
    assert finders.faults


def test_the_exit_code_tells_whether_a_law_is_broken(tmp_path: Path) -> None:
    good = package(tmp_path, {"__init__.py": HEADER + "\n" * 120, "a.py": HEADER + "\n" * 120})
    done = run(good)
    assert (done.returncode, done.stdout.count("ok ")) == (0, len(house.SOURCE_LAWS) + 3), done.stdout
    (good / "b.py").write_text("class Twin: ...\nclass Twin: ...\n", "utf-8")
    done = run(good)
    assert done.returncode == 1
    assert "BROKEN class names defined twice: none; 1 of 1\n         Twin: b.py:1, b.py:2\n" in done.stdout


def run(root: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, house.__file__, str(root)]
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own interpreter
