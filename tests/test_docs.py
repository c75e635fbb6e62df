"""The pages of docs/: every block runs, every page is reachable and builds, every public name is documented."""

import functools
import inspect
import json
import os
import re
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests import fresh
from tests.documents import agrees, blocks

import mixdown

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
WITH_CODE = [page for page in PAGES if any(not block.reason for block in blocks(page.read_text("utf-8")))]
ENVIRONMENT = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}


def run(*arguments: str) -> str:
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [*fresh.python(), *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=ENVIRONMENT,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def verdicts() -> dict[str, str]:
    """What went wrong with the blocks of each page; all in one go, because TensorFlow takes long to import."""
    told: dict[str, str] = json.loads(run("-m", "tests.documents", *map(str, WITH_CODE)))
    return told


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.name)
def test_every_code_block_does_what_the_page_says(page: Path, verdicts: dict[str, str]) -> None:
    assert verdicts[str(page)] == "", verdicts[str(page)]


@pytest.mark.slow
@pytest.mark.skipif(find_spec("sphinx") is None, reason="needs Sphinx: pip install 'mixdown[docs]'")
def test_the_pages_build_without_a_warning(tmp_path: Path) -> None:
    run("-m", "sphinx", "-W", "-q", "-b", "html", str(DOCS), str(tmp_path / "html"))
    assert (tmp_path / "html" / "api.html").is_file()


def test_every_page_is_in_the_index() -> None:
    index = (DOCS / "index.md").read_text("utf-8")
    listed = {name for tree in re.findall(r"```\{toctree\}\n(.*?)```", index, re.DOTALL) for name in tree.split()}
    assert {page.stem for page in PAGES} - {"index"} <= listed


def test_every_public_name_has_an_entry_in_the_api_page() -> None:
    entries = re.findall(r"^\.\. auto\w+:: (\S+)$", (DOCS / "api.md").read_text("utf-8"), re.MULTILINE)
    modules = ("compat", "jax", "keras", "numerics", "tf_keras")
    for name in mixdown.__all__:
        wanted = rf"mixdown\.{name}\.\w+" if name in modules else rf"mixdown\.{name}"
        assert name == "__version__" or any(re.fullmatch(wanted, entry) for entry in entries), name


def test_every_public_name_of_the_jax_host_has_an_entry_in_the_api_page() -> None:
    page = (DOCS / "api.md").read_text("utf-8")
    names = set(mixdown.jax.__all__) - {"Policy"}
    assert [name for name in sorted(names) if f":: mixdown.jax.{name}\n" not in page] == []


def test_every_public_numerics_tool_has_an_entry_in_the_api_page() -> None:
    page = (DOCS / "api.md").read_text("utf-8")
    assert [name for name in mixdown.numerics.__all__ if f":: mixdown.numerics.{name}\n" not in page] == []


FUNCTIONS = re.findall(r"^\.\. autofunction:: (\S+)$", (DOCS / "api.md").read_text("utf-8"), re.MULTILINE)


def public(path: str) -> Any:
    return functools.reduce(getattr, path.split(".")[1:], mixdown)


@pytest.mark.parametrize("path", FUNCTIONS)
def test_every_function_in_the_api_page_says_what_it_returns(path: str) -> None:
    function = public(path)
    returned = inspect.signature(function).return_annotation
    assert returned is not inspect.Signature.empty
    assert returned in (None, "None") or re.search("Returns:|Yields:", function.__doc__), f"{path} -> {returned}"


def test_what_functions_return_has_an_entry_in_the_api_page() -> None:
    entries = re.findall(r"^\.\. auto\w+:: \S*?(\w+)$", (DOCS / "api.md").read_text("utf-8"), re.MULTILINE)
    returned = {str(inspect.signature(public(path)).return_annotation) for path in FUNCTIONS}
    own = {name for text in returned for name in re.findall(r"\b[A-Z]\w+", text)} - {
        "Any",
        "Array",
        "Callable",
        "Iterator",
        "None",
    }
    assert "Conversion" in own
    assert own - set(entries) == set()


def test_the_page_of_peers_names_the_command_that_wrote_it() -> None:
    assert "`make peers`" in (DOCS / "peers.md").read_text("utf-8").partition("\n## ")[0]
    assert "docs/peers.md" in run("benchmarks/peers.py", "--help")


def test_the_page_of_benchmarks_names_scripts_that_exist() -> None:
    scripts = re.findall(r"`python (benchmarks/\S+)`", (DOCS / "benchmarks.md").read_text("utf-8"))
    assert scripts
    assert [script for script in scripts if not (ROOT / script).is_file()] == []


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("", "anything", True),
        ("one\n", "zero\none\ntwo\n", True),
        ("one\n...\nthree\n", "one\ntwo\nthree\n", True),
        ("a ... c\n", "a b c\n", True),
        ("one\n", "two\n", False),
        ("one\n...\nthree\n", "three\ntwo\none\n", False),
    ],
)
def test_what_is_shown_is_compared_with_what_is_printed(*, shown: str, printed: str, same: bool) -> None:
    assert agrees(shown, printed) is same


def test_a_block_is_left_out_only_with_a_reason() -> None:
    page = "```python\na\n```\n\n```text\nout\n```\n<!-- not run: why -->\n```console\n$ mixdown x\n```\n"
    assert [(each.code, each.shown, each.reason) for each in blocks(page)] == [
        ("a\n", "out\n", ""),
        ("$ mixdown x\n", "", "why"),
    ]
