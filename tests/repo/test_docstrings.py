"""Every name in backticks that a docstring of the source mentions exists, and a test of this test with faults."""

from pathlib import Path

import pytest
from tests.repo.docstring_names import OUTSIDE, resolves, unknown

PACKAGE = Path(__file__).parents[2] / "src" / "mixdown"

# A package in which names of every sort are defined; the docstring of `speaking` mentions them.
KNOWN = {
    "__init__.py": "",
    "signatures.py": "class Kinds:\n    size = 1\n    def of(self, wire): self.seen = {}\n",
    "wiring.py": "LIMIT = 3\ndef wired(node): ...\ndef with_deny(): ...\nSTRATEGIES = {'optimal': wired}\n",
    "subclass.py": "from mixdown.signatures import Kinds\nclass Sorts(Kinds): ...\n",
    "rules/__init__.py": "",
    "rules/some_kinds.txt": "MatMul\n",
}
GOOD = [
    "wired", "wired()", "Kinds", "Kinds.of", "Kinds.size", "Kinds.seen", "Sorts.of", "LIMIT", "wiring", "wiring.wired",
    "with_*", "optimal", "MatMul", "float16", "with", "None", "ValueError", "os.environ", "tf.function",
    "keras.Model.fit", "mixdown.core.make_plan", "fit", "own_parameter", "own_value", "--own-option",
    # plainly code, a path or a command:
    "mixdown doctor", "why('dense')", "jit_compile=True", "items[:end]", "op@function", ".json", "graph.pb",
    "name:output:index", "2.17.0+nv24.11", "super().__init__()", "src/nowhere.py", "$HOME",
]  # fmt: skip
BAD = [
    "Kinds.signature",  # a method that does not exist
    "wire",  # a function that does not exist, though a parameter elsewhere has this name
    "probes",  # a module that was renamed
    "wiring.wire",
    "Sorts.none",
    "Nobody",
    "NOBODY",
    "without_*",
    "--other-option",
    "tf.functoin",
    "keras.Modell",
    "mixdown.nowhere",
    "mixdown.core.make_plans",
]


def write(folder: Path, name: str) -> Path:
    speaking = f'"""Says `{name}`."""\n\ndef speak(own_parameter="own_value"):\n    return "--own-option"\n'
    for file, text in {**KNOWN, "speaking.py": speaking}.items():
        path = folder / "mixdown" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return folder / "mixdown"


def test_every_name_in_a_docstring_exists() -> None:
    found = unknown(PACKAGE)
    assert found == [], "\n".join(found)


@pytest.mark.parametrize("name", GOOD)
def test_a_name_that_exists_is_found(name: str, tmp_path: Path) -> None:
    assert unknown(write(tmp_path, name)) == []


@pytest.mark.parametrize("name", BAD)
def test_a_name_that_does_not_exist_is_reported_with_its_place(name: str, tmp_path: Path) -> None:
    assert unknown(write(tmp_path, name)) == [f"mixdown.speaking:1: `{name}`"]


@pytest.mark.parametrize("path", OUTSIDE.values(), ids=OUTSIDE)
def test_the_names_of_others_are_where_the_table_says(path: str) -> None:
    assert resolves(path)
