"""Nothing in the package could run what a file says: no pickle, no eval, no shell."""

import ast
from pathlib import Path

import pytest

import mixdown

PACKAGE = Path(mixdown.__file__).parent
MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "joblib", "yaml", "subprocess", "pty"}
CALLS = {"eval", "exec", "compile", "__import__", "system", "popen", "execv", "execve", "spawnv"}
UNSAFE_KEYWORDS = {"allow_pickle": True, "shell": True, "safe_mode": False}
RUNS_SCRIPTS = {
    "cli/run.py": {"runpy"},  # that is what the command is for
    "cli/interrupt.py": {"subprocess"},  # the type of the demonstration's children, which Ctrl-C ends
    "cli/demo_children.py": {"subprocess"},  # parts of the demonstration, by fixed names
}


def dangers(source: str) -> set[str]:
    """What a source text does that could run data."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found |= {name.name.partition(".")[0] for name in names} & (MODULES | {"runpy"})
            case ast.ImportFrom(module=str(module)):
                found |= {module.partition(".")[0]} & (MODULES | {"runpy"})
            case ast.Call(func=ast.Name(id=name)):
                found |= {name} & CALLS
            case ast.Call(func=ast.Attribute(attr=name, value=ast.Name(id="os" | "builtins"))):
                found |= {name} & CALLS
        if isinstance(node, ast.Call):
            found |= {str(word.arg) for word in node.keywords if is_unsafe(word)}
    return found


def is_unsafe(word: ast.keyword) -> bool:
    return (
        word.arg in UNSAFE_KEYWORDS
        and isinstance(word.value, ast.Constant)
        and word.value.value is UNSAFE_KEYWORDS[word.arg]
    )


def test_nothing_in_the_package_can_run_data() -> None:
    found = {str(path.relative_to(PACKAGE)): dangers(path.read_text("utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}
    assert {name: what for name, what in found.items() if what} == RUNS_SCRIPTS


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads",
        "import yaml.loader",
        "eval('1')",
        "exec(text)",
        "os.system(text)",
        "np.load(path, allow_pickle=True)",
        "run(text, shell=True)",
        "load_model(path, safe_mode=False)",
    ],
)
def test_the_scan_sees_what_it_looks_for(source: str) -> None:
    assert dangers(source)
