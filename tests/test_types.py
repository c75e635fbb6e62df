"""What a type checker and an editor know: every public name, and which uses of them are wrong."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.documents import blocks

import mixdown

SOURCE = Path(mixdown.__file__).parent
DOCS = Path(__file__).parents[1] / "docs"
PACKAGES = [".", "jax", "numerics"]  # those that import their public names on first use
LEGAL = """
import mixdown
from mixdown import Policy, LossScaleOptimizer

policy = Policy(low="bfloat16", devices=("GPU", "CPU")).with_keep("Tanh", layer="head").with_deny(["Exp"])
policy.save("policy.json").exists()
Policy.load("policy.json").low.upper()
optimizer = mixdown.enable_mixed_precision_graph_rewrite(object(), 128, policy=policy)
wrapped = LossScaleOptimizer(object(), loss_scale="dynamic", skip_limit=5)
print(isinstance(wrapped, mixdown.LossScaleOptimizer), wrapped.skipped_steps)
mixdown.DynamicLossScale(initial_loss_scale=2.0, floor=1.0)
with mixdown.rewriting(policy):
    pass

@mixdown.rewrite
def one(x: int) -> int:
    return x

@mixdown.rewrite(policy)
def two(x: int) -> int:
    return x

print(one(1) + two(2), mixdown.report().why("head"), mixdown.__version__.upper())
mixdown.numerics.locate(one, 1)
mixdown.unwrap(object()).save("plain.keras")
mixdown.disable_mixed_precision_graph_rewrite()
"""
WRONG = """
from mixdown import no_such_name
mixdown.Polciy()
mixdown.Policy(lwo=1)
mixdown.Policy(low=16)
mixdown.Policy(devices=3)
mixdown.Policy(strategy=1)
mixdown.Policy().with_kept("Tanh")
mixdown.Policy().with_keep(3)
mixdown.Policy().with_keep(layers="head")
mixdown.Policy().with_keep(layer=3)
mixdown.Policy().low = "float16"
mixdown.Policy.load()
mixdown.enable_mixed_precision_graph_rewrite()
mixdown.enable_mixed_precision_graph_rewrite(None, polcy=None)
mixdown.enable_mixed_precision_graph_rewrite(None, policy="mixed_float16")
mixdown.disable_mixed_precision_graph_rewrite(True)
mixdown.rewriting("mixed_float16")
mixdown.LossScaleOptimizer()
mixdown.LossScaleOptimizer(None, skip_limit="5")
mixdown.DynamicLossScale(inital_loss_scale=2.0)
mixdown.FixedLossScale("2")
mixdown.explain()
mixdown.explain(print, policy=3)
mixdown.report(1)
mixdown.unwrap()
mixdown.report().wy("head")
mixdown.convert_saved_model("a")
mixdown.convert_saved_model("a", "b", weights="float16")
mixdown.numerics.lokate(print)
mixdown.bisect(print, [], "small")
"""


def names_in(text: str) -> set[str]:
    tree = ast.parse(text)
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    imported = {alias.asname for node in imports for alias in node.names if alias.asname}
    return imported | {node.target.id for node in tree.body if isinstance(node, ast.AnnAssign)} - {"__all__"}  # type: ignore[union-attr]


@pytest.mark.parametrize("package", PACKAGES)
def test_a_stub_has_every_public_name_from_its_home_and_no_other(package: str) -> None:
    stub = SOURCE / package / "__init__.pyi"
    homes = _homes(stub.with_suffix(".py"))
    others = set(mixdown.__all__) - set(homes) if package == "." else set()  # the public modules and the version
    assert names_in(stub.read_text("utf-8")) == {*homes, *others}
    for node in ast.parse(stub.read_text("utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module != "mixdown":
            assert {homes[alias.name] for alias in node.names} == {node.module}, ast.unparse(node)


def _homes(path: Path) -> dict[str, str]:
    """The table of public names and their modules that a package has."""
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_HOMES":
            return dict(ast.literal_eval(node.value))
    raise AssertionError(path)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[int, list[str]]]:
    """The errors that pyright finds in the pages above and in those of docs/: page -> line -> messages."""
    folder = tmp_path_factory.mktemp("typed")
    (folder / "legal.py").write_text(LEGAL, "utf-8")
    (folder / "wrong.py").write_text("import mixdown" + WRONG, "utf-8")
    for page in DOCS.glob("*.md"):
        code = [block.code for block in blocks(page.read_text("utf-8")) if block.language == "python"]
        if code:
            (folder / f"{page.stem}.py").write_text("\n".join(code), "utf-8")
    options = {"typeCheckingMode": "standard", "extraPaths": [str(SOURCE.parent)], "reportMissingModuleSource": False}
    (folder / "pyrightconfig.json").write_text(json.dumps(options), "utf-8")
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)  # noqa: S603 - our own
    out: dict[str, dict[int, list[str]]] = {}
    for each in json.loads(done.stdout)["generalDiagnostics"]:
        if each["severity"] == "error":
            lines = out.setdefault(Path(each["file"]).stem, {})
            lines.setdefault(each["range"]["start"]["line"], []).append(each["message"])
    return out


needs_pyright = pytest.mark.skipif(
    find_spec("basedpyright") is None, reason="needs basedpyright: pip install 'mixdown[dev]'"
)


@needs_pyright
def test_right_uses_check(found: dict[str, Any]) -> None:
    assert found.get("legal", {}) == {}


@needs_pyright
def test_every_wrong_use_is_refused(found: dict[str, Any]) -> None:
    lines = WRONG.splitlines()
    assert [line for at, line in enumerate(lines) if line and at not in found["wrong"]] == []


@needs_pyright
def test_every_call_of_mixdown_in_the_docs_checks(found: dict[str, Any]) -> None:
    ours = {
        f"{page}:{line}": messages
        for page, lines in found.items()
        if page not in ("legal", "wrong")
        for line, messages in lines.items()
        if any(re.search(r"mixdown|Policy|LossScale|Report", message) for message in messages)
    }
    assert ours == {}


@pytest.mark.skipif(find_spec("jedi") is None, reason="needs jedi: pip install 'mixdown[dev]'")
def test_an_editor_completes_names_methods_and_arguments() -> None:
    import jedi  # noqa: PLC0415 - it may not be installed

    project = jedi.Project(SOURCE.parents[1], added_sys_path=[str(SOURCE.parent)])

    def completed(code: str) -> set[str]:
        return {each.name for each in jedi.Script(code, project=project).complete()}

    assert set(mixdown.__all__) - {"__version__"} <= completed("import mixdown\nmixdown.")
    assert {"with_keep", "with_deny", "save"} <= completed("import mixdown\nmixdown.Policy().")
    assert {"low=", "devices="} <= completed("import mixdown\nmixdown.Policy(")
