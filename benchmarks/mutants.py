"""Mutation check of the pure parts: `python benchmarks/mutants.py` breaks them in one place after the other.

A mutant is one module of `core/` or `scaling/` with one small fault: a comparison turned round, a number off by one, an
`and` for an `or`, a condition negated, a statement left out. Each runs in a process of its own against the tests of
these folders; it is killed if one of them fails, or never ends. What survives is printed: a test is missing there, or
the fault makes no difference. `--sample` takes some at random, by `--seed`; `make mutants` takes the default.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import signal
import sys
import time
from contextlib import suppress
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("core", "scaling")
TESTS = ("tests/core/test_goldens.py", "tests/core", "tests/scaling", "tests/rules/test_rule_sets.py")
PATIENCE = 300
"""Seconds after which a mutant counts as one that never ends."""

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}


class Mutant(NamedTuple):
    """A fault: in which module, at which node of its tree, in which line, and what it is."""

    module: str
    node: int
    line: int
    fault: str

    def source(self) -> str:
        """The module with the fault in it."""
        tree = ast.parse(path_of(self.module).read_text(encoding="utf-8"))
        if self.fault:
            broken(list(ast.walk(tree))[self.node])
        return ast.unparse(ast.fix_missing_locations(tree))


UNHARMED = Mutant("mixdown.core.plan", 0, 0, "")


def path_of(module: str) -> Path:
    """The file of a module."""
    return (ROOT / "src" / module.replace(".", "/")).with_suffix(".py")


def mutants() -> Iterator[Mutant]:
    """All of them, file by file."""
    for folder in FOLDERS:
        for path in sorted((ROOT / "src/mixdown" / folder).rglob("*.py")):
            if path.stem != "__init__":
                yield from of_module(".".join(path.relative_to(ROOT / "src").with_suffix("").parts))


def of_module(name: str) -> Iterator[Mutant]:
    """Every fault in one module."""
    for index, node in enumerate(list(ast.walk(ast.parse(path_of(name).read_text(encoding="utf-8"))))):
        line = getattr(node, "lineno", 0)
        if not is_for_types(node) and (fault := broken(node)):
            yield Mutant(name, index, line, fault)


def broken(node: ast.AST) -> str:
    """Break a node in place, and say how; "" if there is nothing to break."""
    fault = ""
    match node:
        case ast.Compare(ops=[op]) if type(op) in COMPARISONS:
            node.ops = [COMPARISONS[type(op)]()]
            fault = f"{type(op).__name__} -> {type(node.ops[0]).__name__}"
        case ast.BoolOp():
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            fault = f"-> {type(node.op).__name__}"
        case ast.UnaryOp(op=ast.Not()):
            node.operand = ast.UnaryOp(ast.Not(), node.operand)
            fault = "not left out"
        case ast.BinOp(op=operator) if type(operator) in OPERATORS and not is_annotation(node):
            node.op = OPERATORS[type(operator)]()
            fault = f"{type(operator).__name__} -> {type(node.op).__name__}"
        case ast.Constant(value=bool() as truth):
            node.value = not truth
            fault = f"-> {node.value}"
        case ast.Constant(value=int() as number):
            node.value = number + 1
            fault = f"{number} -> {node.value}"
        case ast.If() | ast.IfExp() | ast.While():
            node.test = ast.UnaryOp(ast.Not(), node.test)
            fault = "condition negated"
        case ast.Return(value=ast.AST() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            node.value = ast.Constant(None)
            fault = "returns None"
        case ast.Expr(value=ast.Call()):
            node.value = ast.Constant(None)
            fault = "statement left out"
    return fault


def is_for_types(node: ast.AST) -> bool:
    """Whether what is below is read by type checkers alone."""
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def is_annotation(node: ast.BinOp) -> bool:
    """Whether this is a union of types, which nothing reads at run time."""
    return isinstance(node.op, ast.BitOr) and any(
        (isinstance(side, ast.Constant) and side.value is None)
        or (isinstance(side, ast.Name) and (side.id[0].isupper() or side.id in ("str", "int", "float", "bool")))
        for side in (node.left, node.right)
    )


class Substitute(MetaPathFinder, Loader):
    """Gives Python the mutant in place of the module."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant

    def find_spec(self, fullname: str, _path: object, _target: object = None) -> ModuleSpec | None:
        """Where the mutant is."""
        return ModuleSpec(fullname, self) if fullname == self.mutant.module else None

    def exec_module(self, module: ModuleType) -> None:
        """Run it."""
        exec(compile(self.mutant.source(), self.mutant.module, "exec"), module.__dict__)  # noqa: S102 - our own source


def is_killed(mutant: Mutant) -> bool:
    """Whether a test fails, or nothing ends, with the mutant in place."""
    child = os.fork()
    if child == 0:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(1, 2)
        os._exit(run_tests(mutant))
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) != 0
        time.sleep(0.05)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def run_tests(mutant: Mutant) -> int:
    """Pytest's exit code with the mutant in place."""
    import pytest  # noqa: PLC0415 - imported by the parent before

    sys.meta_path.insert(0, Substitute(mutant))
    # A mutant that raises where it is imported is killed too: pytest then exits with an error.
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not slow", "--rootdir", str(ROOT)]
    return int(pytest.main([*options, *TESTS]))


def preload() -> None:
    """Import what every child needs, except what is mutated."""
    import numpy as np  # noqa: F401, PLC0415 - for the children
    import pytest  # noqa: F401, PLC0415 - the same
    import scipy.sparse.csgraph  # noqa: F401, PLC0415 - the same


def main(arguments: Sequence[str] | None = None) -> int:
    """Try mutants, name the survivors, and print how many were killed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=150, help="how many mutants to try, 0 for all (default: 150)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--part", default="1/1", help="try only this part of the sample, such as 2/2")
    parser.add_argument("--least", type=float, default=0.9, help="exit with 1 if fewer are killed (default: 0.9)")
    asked = parser.parse_args(arguments)
    found = list(mutants())
    chosen = random.Random(asked.seed).sample(found, min(asked.sample or len(found), len(found)))  # noqa: S311 - a seed
    which, parts = map(int, asked.part.split("/"))
    chosen = chosen[which - 1 :: parts]
    os.chdir(ROOT)
    preload()
    if is_killed(UNHARMED):
        print("The tests fail without any fault: mend that first.")
        return 2
    killed = 0
    for mutant in chosen:
        dead = is_killed(mutant)
        killed += dead
        if not dead:
            print(f"survived: {mutant.module}:{mutant.line} {mutant.fault}", flush=True)
    print(f"{killed} of {len(chosen)} mutants killed ({killed / len(chosen):.1%}), of {len(found)} in all")
    return int(killed < asked.least * len(chosen))


if __name__ == "__main__":
    sys.exit(main())
