"""The packages of the source: each says what it is for and names its door, and ARCHITECTURE.md knows them all.

Also here: the modules that import others by name, which neither import-linter nor `tools/house.py` can follow.
"""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest
from tests.repo.docstring_names import TICKED, Names

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "mixdown"
ARCHITECTURE = ROOT / "ARCHITECTURE.md"
LONGEST = 120  # lines of ARCHITECTURE.md: two screens

# Modules that import another by its name -> why an ordinary import does not do.
BY_NAME = {
    "__init__.py": "public names are imported on first use, so that `import mixdown` needs no framework",
    "numerics/__init__.py": "the public tools need TensorFlow, and the pure code beside them does not",
    "choose_host.py": "a host is imported when it is needed, and the other need not be installed",
    "jax/__init__.py": "public names are imported on first use",
    "jax/private.py": "private names of JAX are looked up, and some releases lack one",
    "keras3/optimizer.py": "the backend of another host need not be installed",
    "keras3/training_log.py": "event files need TensorFlow, and a history does not",
    "private_names.py": "private names are looked up, and some releases lack one",
    "keras_registration.py": "the optimizers are imported when a saved file asks for one",
    "cli/demo_data.py": "keras and scikit-learn are optional, and imported when their data are asked for",
    "tensorflow/explaining/doctor.py": "keras may be missing or broken, which is what the command looks at",
    "tensorflow/runtime/keras_files.py": "a file is loaded by the Keras that wrote it, and the other need not be there",
    "tensorflow/loss_scaling/optimizers/__init__.py": "the wrapper of one Keras must not import another",
}


def imports_by_name(text: str) -> bool:
    """Whether a module imports another by its name."""
    named = (
        node.id if isinstance(node, ast.Name) else node.attr
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Name | ast.Attribute)
    )
    return not {"import_module", "__import__", "exec_module", "run_module"}.isdisjoint(named)


def rooms() -> list[str]:
    """The packages below mixdown, as paths: `tensorflow/reading`."""
    return sorted(str(path.parent.relative_to(PACKAGE)) for path in PACKAGE.glob("*/**/__init__.py"))


def sentences(text: str) -> int:
    """How many sentences a docstring has."""
    return len(re.findall(r"[.!?](?=\s|$)", text))


def docstring(room: str) -> str:
    return ast.get_docstring(ast.parse((PACKAGE / room / "__init__.py").read_text("utf-8"))) or ""


def doors(text: str, inside: set[str]) -> list[str]:
    """The names in a docstring that are defined in the package that it describes."""
    named = (found[1] or found[2] for found in TICKED.finditer(text))
    return [name for name in named if not inside.isdisjoint(name.removesuffix("()").split("."))]


def names_missing(text: str, packages: list[str]) -> list[str]:
    """The packages that a text does not name: by path or, where no other package ends so, by the last part of it."""
    last = Counter(package.rpartition("/")[2] for package in packages)
    missing = []
    for package in packages:
        spellings = [package, package.replace("/", ".")]
        if last[package.rpartition("/")[2]] == 1:
            spellings.append(package.rpartition("/")[2])
        if not any(re.search(rf"(?<![\w./]){re.escape(each)}(?![\w.]*\w)", text) for each in spellings):
            missing.append(package)
    return missing


def test_modules_are_imported_by_name_only_for_a_reason() -> None:
    found = {
        str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py") if imports_by_name(path.read_text("utf-8"))
    }
    assert sorted(found - set(BY_NAME)) == []
    assert sorted(set(BY_NAME) - found) == [], "these no longer do, so their rows can go"


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("from importlib import import_module\nimport_module('json')\n", True),
        ("import importlib\nimportlib.import_module('json')\n", True),
        ("__import__('json')\n", True),
        ("import json\nfrom json import loads\n", False),
        ('"""Not by import_module."""\n', False),
    ],
)
def test_an_import_by_name_is_seen(*, text: str, seen: bool) -> None:
    assert imports_by_name(text) is seen


@pytest.fixture(scope="module")
def names() -> Names:
    return Names(PACKAGE)


@pytest.mark.parametrize("room", rooms())
def test_a_package_says_what_it_is_for_and_names_its_door(room: str, names: Names) -> None:
    text = docstring(room)
    assert sentences(text) >= 2, text
    dotted = f"mixdown.{room.replace('/', '.')}"
    assert doors(text, names.inside(dotted)) != [], f"no name in backticks is defined in {room}: {text}"


def test_a_package_without_sentences_or_door_is_noticed() -> None:
    assert sentences("TODO room.") == 1
    assert sentences("Reads protos (e.g.graphs). The door is `read`.") == 2
    inside = {"read", "Graph", "builder"}
    assert doors("The door is `read`; it returns a `Graph`.", inside) == ["read", "Graph"]
    assert doors("Start with `reading.read` or `Graph.of`, not `write`.", inside) == ["reading.read", "Graph.of"]
    assert doors("The door is `write`.", inside) == []


def test_the_architecture_page_names_every_package_in_two_screens() -> None:
    text = ARCHITECTURE.read_text("utf-8")
    assert names_missing(text, rooms()) == []
    assert len(text.splitlines()) <= LONGEST


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("`core/` and `numerics/`, `host/numerics/` and `host/reading/`", []),
        ("core numerics host.numerics host.reading", []),
        ("core, numerics, host/numerics and reading", []),
        ("core, numerics and reading", ["host/numerics"]),
        ("score, host/numerics, rereading", ["core", "host/reading", "numerics"]),
        ("core.py numerics host/numerics reading", ["core"]),
    ],
)
def test_a_package_that_the_page_leaves_out_is_noticed(text: str, missing: list[str]) -> None:
    assert names_missing(text, ["core", "host/numerics", "host/reading", "numerics"]) == missing
