"""Measures the source and prints one line a law; `make house` runs it. Start with `laws`.

A law is a statement about all Python files of the package: how many modules a package holds, that no imports form a
cycle, and so on. A broken law is followed by one line for each fault, and the exit code is then 1. The time that
`import mixdown` takes is printed but never asserted, because it depends on the machine.

As a script: `python tools/house.py [PACKAGE_FOLDER]`, by default `src/mixdown`.
"""

import ast
import re
import subprocess
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

PACKAGE: Final = Path(__file__).parents[1] / "src" / "mixdown"

MOST_MODULES: Final = 14  # in one package, `__init__.py` not counted
MOST_DUPLICATES: Final = 8
RUN: Final = 6  # as many identical lines are a duplicate
MEDIAN_FILE: Final = (90, 200)
LONGEST_FILE: Final = 350
FRAMEWORKS: Final = ("tensorflow", "keras", "tf_keras", "jax", "torch", "numpy", "scipy")
STARTS: Final = 5  # of a fresh interpreter; the quickest import is printed

Edges = Mapping[str, set[str]]


class Law(NamedTuple):
    """One law, what was measured, and what breaks it."""

    name: str
    measured: str
    faults: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the line of the law, then one indented line for each fault."""
        line = f"{'BROKEN' if self.faults else 'ok':7}{self.name}: {self.measured}"
        return "\n".join([line, *(f"         {fault}" for fault in self.faults)])


class Source:
    """The Python files of a package, read and parsed once: module name (`core.plan`) -> file, text and syntax tree.

    The name of the package itself is left off, so its own `__init__.py` is the module "".
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files: dict[str, Path] = {}
        for path in sorted(root.rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            self.files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
        self.texts = {name: path.read_text("utf-8") for name, path in self.files.items()}
        self.trees = {name: ast.parse(text) for name, text in self.texts.items()}

    def is_package(self, module: str) -> bool:
        """Whether a module is the `__init__.py` of a folder."""
        return self.files[module].name == "__init__.py"

    def place(self, module: str, line: int) -> str:
        """Return a line of a module as editors write it: `core/plan.py:12`."""
        return f"{self.files[module].relative_to(self.root)}:{line}"


def modules_in_a_package(source: Source) -> Law:
    """No package holds more than MOST_MODULES modules."""
    sizes: dict[str, int] = {module: 0 for module in source.files if source.is_package(module)}
    for module in source.files:
        if not source.is_package(module):
            sizes[module.rpartition(".")[0]] = sizes.get(module.rpartition(".")[0], 0) + 1
    largest = max(sizes, key=lambda package: sizes[package])
    return Law(
        "modules in a package",
        f"at most {MOST_MODULES}; the most are {sizes[largest]}, in {largest or source.root.name}",
        tuple(f"{package} holds {size}" for package, size in sorted(sizes.items()) if size > MOST_MODULES),
    )


def imports(source: Source) -> dict[str, set[str]]:
    """Return which modules of the package each module imports: at its top, in functions and under TYPE_CHECKING.

    Modules that are imported by name (`import_module`) are not seen; `tests/repo/test_rooms.py` lists these.
    """
    found: dict[str, set[str]] = {}
    for module, tree in source.trees.items():
        named = (name for node in ast.walk(tree) for name in _imported(source, module, node))
        found[module] = {name for name in named if name not in (module, "")}
    return found


def _imported(source: Source, module: str, node: ast.AST) -> Iterator[str]:
    """The modules of the package that one statement imports."""
    whole = source.root.name
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name.startswith(f"{whole}."):
                yield _module_of(source, alias.name.removeprefix(f"{whole}."))
    elif isinstance(node, ast.ImportFrom):
        start = node.module or ""
        if node.level:
            above = module.split(".") if source.is_package(module) else module.split(".")[:-1]
            start = ".".join([whole, *above[: len(above) - node.level + 1], *filter(None, [node.module])])
        if start == whole or start.startswith(f"{whole}."):
            inside = start.removeprefix(whole).removeprefix(".")
            for alias in node.names:
                yield _module_of(source, f"{inside}.{alias.name}".removeprefix("."))


def _module_of(source: Source, name: str) -> str:
    """The module that a dotted name lies in: the longest part of it that is one."""
    while name and name not in source.files:
        name = name.rpartition(".")[0]
    return name


def knots(edges: Edges) -> list[list[str]]:
    """Return the sets of two or more nodes that all reach each other, each sorted."""
    reached = {node: _reached(node, edges) for node in edges}
    found = {tuple(sorted(n for n in reached[node] if node in reached.get(n, ()))) for node in edges}
    return sorted(list(knot) for knot in found if len(knot) > 1)


def _reached(start: str, edges: Edges) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for following in edges.get(waiting.pop(), ()):
            if following not in seen:
                seen.add(following)
                waiting.append(following)
    return seen


def shortest_cycle(knot: Iterable[str], edges: Edges) -> list[str]:
    """Return the shortest way from a node of a knot back to itself, both ends included."""
    members = set(knot)
    cycles = [_way_back(node, members, edges) for node in sorted(members)]
    return min(cycles, key=len)


def _way_back(start: str, members: set[str], edges: Edges) -> list[str]:
    waiting = deque([[start]])
    seen: set[str] = set()
    while waiting:
        way = waiting.popleft()
        for following in sorted(edges[way[-1]] & members):
            if following == start:
                return [*way, start]
            if following not in seen:
                seen.add(following)
                waiting.append([*way, following])
    raise ValueError(f"{start} is in no cycle")


def _cycles(edges: Edges) -> tuple[str, ...]:
    return tuple(f"{' -> '.join(shortest_cycle(knot, edges))} (a knot of {len(knot)})" for knot in knots(edges))


def import_cycles(source: Source) -> Law:
    """No module imports itself by way of others."""
    edges = imports(source)
    faults = _cycles(edges)
    count = sum(map(len, edges.values()))
    return Law("import cycles between modules", f"none; {len(faults)} in {count} imports", faults)


def sibling_cycles(source: Source) -> Law:
    """In every package: what lies side by side in it imports one way, whatever is inside."""
    faults: list[str] = []
    packages = [module for module in source.files if source.is_package(module)]
    edges = imports(source)
    for package in packages:
        between: dict[str, set[str]] = defaultdict(set)
        for importer, named in edges.items():
            for each in named:
                ends = _child(package, importer), _child(package, each)
                if all(ends) and ends[0] != ends[1]:
                    between[ends[0]].add(ends[1])
        faults += [f"in {package or source.root.name}: {cycle}" for cycle in _cycles(between)]
    return Law("import cycles between siblings", f"none; {len(faults)} in {len(packages)} packages", tuple(faults))


def _child(package: str, module: str) -> str:
    """What of a package a module is or lies in; "" if it lies elsewhere or is the package itself."""
    prefix = f"{package}." if package else ""
    return module.removeprefix(prefix).partition(".")[0] if module.startswith(prefix) else ""


def classes_defined_twice(source: Source) -> Law:
    """Every class has a name of its own."""
    places: dict[str, list[str]] = defaultdict(list)
    for module, tree in source.trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(source.place(module, node.lineno))
    faults = [f"{name}: {', '.join(where)}" for name, where in sorted(places.items()) if len(where) > 1]
    return Law("class names defined twice", f"none; {len(faults)} of {len(places)}", tuple(faults))


def duplicates(source: Source) -> Law:
    """At most MOST_DUPLICATES runs of RUN or more lines stand in two places; a third place counts once more."""
    lines = [line for module in source.files for line in _lines(source, module)]
    starts: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for start in range(len(lines) - RUN + 1):
        window = tuple(line.text for line in lines[start : start + RUN])
        if END.text not in window:
            starts[window].append(start)
    pairs = sorted((found[0], other) for found in starts.values() for other in found[1:] if other - found[0] >= RUN)
    faults = []
    for first, second in pairs:
        if first == 0 or not _same(lines[first - 1], lines[second - 1]):  # a run begins here
            length = next(n for n in range(RUN, len(lines)) if not _same(lines[first + n], lines[second + n]))
            faults.append(f"{length} lines: {lines[first].place} and {lines[second].place}: {lines[first].text}")
    kept = tuple(faults) if len(faults) > MOST_DUPLICATES else ()
    return Law(f"runs of {RUN} identical lines", f"at most {MOST_DUPLICATES}; {len(faults)}", kept)


class Line(NamedTuple):
    """A line of code with white space folded, and where it stands."""

    text: str
    place: str


END: Final = Line("", "")  # of a file: no run goes on behind it


def _same(one: Line, other: Line) -> bool:
    return one.text == other.text != END.text


def _lines(source: Source, module: str) -> Iterator[Line]:
    """The lines of a module that are not blank, a comment or an import, then END."""
    passed_over = {
        number
        for node in ast.walk(source.trees[module])
        if isinstance(node, ast.Import | ast.ImportFrom)
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    for number, line in enumerate(source.texts[module].splitlines(), 1):
        text = " ".join(line.split())
        if text and not text.startswith("#") and number not in passed_over:
            yield Line(text, source.place(module, number))
    yield END


def total_lines(source: Source) -> Law:
    """How many lines all files have together; printed, never asserted: features take lines."""
    return Law("lines of source", f"{sum(_lengths(source).values()):,} in {len(source.files)} files; not asserted")


def median_file(source: Source) -> Law:
    """The median module is neither a scrap nor a tome; with `__init__.py` it is printed, too."""
    lengths = _lengths(source)
    least, most = MEDIAN_FILE
    modules = [length for module, length in lengths.items() if not source.is_package(module)]
    medians = {"with __init__.py": median(lengths.values()), "without": median(modules or [0])}
    faults = () if least <= medians["without"] <= most else (f"without __init__.py {medians['without']:g}",)
    measured = ", ".join(f"{value:g} {name}" for name, value in medians.items())
    return Law("median lines of a file", f"{least} to {most}; {measured}", faults)


def longest_file(source: Source) -> Law:
    """No file is longer than LONGEST_FILE lines."""
    lengths = _lengths(source)
    longest = max(lengths, key=lambda module: lengths[module])
    faults = [f"{source.place(m, length)}" for m, length in sorted(lengths.items()) if length > LONGEST_FILE]
    name = source.files[longest].relative_to(source.root)
    return Law("lines of the longest file", f"at most {LONGEST_FILE}; {lengths[longest]}, {name}", tuple(faults))


def _lengths(source: Source) -> dict[str, int]:
    return {module: len(text.splitlines()) for module, text in source.texts.items()}


def op_kinds_in_core(source: Source) -> Law:
    """The planner knows no host: no text in `core` names an op kind of one, docstrings and comments excepted."""
    kinds = {kind for path in source.root.glob("rules/*_kinds.txt") for kind in path.read_text("utf-8").split()}
    primitives = (path.read_text("utf-8").split() for path in source.root.glob("rules/*_primitives.txt"))
    kinds |= {kind for listed in primitives for kind in listed if "_" in kind}  # JAX's others are ordinary words
    faults = []
    for module, tree in source.trees.items():
        if _child("", module) == "core":
            for text, line in _texts(tree):
                named = kinds & (set(re.findall(r"\w+", text)) - ORDINARY_WORDS | {text})
                faults += [f"{source.place(module, line)}: {kind}" for kind in sorted(named)]
    return Law("op kinds named in core", f"none of {len(kinds):,}; {len(faults)}", tuple(faults))


# Kinds of TensorFlow that are ordinary words too: they count where they stand alone, not in a sentence.
ORDINARY_WORDS: Final = frozenset({"A", "B", "All", "Any", "Case", "For", "If", "Where", "While"})


def _texts(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """The strings of a module that it works with, and their lines: not docstrings, nor the names in `__all__`."""
    passed_over: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            passed_over.add(id(node.value))
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            passed_over |= {id(name) for name in ast.walk(node.value)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in passed_over:
            yield node.value, node.lineno


PROBE: Final = f"""
import sys, time
sys.path.insert(0, sys.argv[1])
finders = list(sys.meta_path)
start = time.perf_counter()
__import__(sys.argv[2])
took = time.perf_counter() - start
print(took, finders == sys.meta_path, *(name for name in {FRAMEWORKS!r} if name in sys.modules))
"""


class Import(NamedTuple):
    """What happened when the package was imported."""

    seconds: float
    frameworks: tuple[str, ...]
    finders_kept: bool


def imported(root: Path) -> Import:
    """Import the package in STARTS fresh interpreters, one after another; returns the quickest."""
    command = [sys.executable, "-c", PROBE, str(root.parent), root.name]
    printed = (subprocess.run(command, check=True, capture_output=True, text=True).stdout for _ in range(STARTS))  # noqa: S603 - our own interpreter
    found = (line.split() for line in printed)
    return min(Import(float(took), tuple(names), kept == "True") for took, kept, *names in found)


def import_laws(root: Path) -> list[Law]:
    """Importing the package takes the time it takes, loads no framework, and puts nothing on `sys.meta_path`."""
    seen = imported(root)
    name = f"import {root.name}"
    finders = () if seen.finders_kept else ("a finder was added or removed",)
    return [
        Law(f"{name}, time", f"{seen.seconds:.3f} s, the best of {STARTS}; not asserted"),
        Law(f"{name}, frameworks loaded", f"none; {len(seen.frameworks)}", seen.frameworks),
        Law(f"{name}, sys.meta_path untouched", "yes" if seen.finders_kept else "no", finders),
    ]


SOURCE_LAWS: Final[tuple[Callable[[Source], Law], ...]] = (
    modules_in_a_package,
    import_cycles,
    sibling_cycles,
    classes_defined_twice,
    duplicates,
    total_lines,
    median_file,
    longest_file,
    op_kinds_in_core,
)


def laws(root: Path = PACKAGE) -> list[Law]:
    """Measure everything about the package in a folder."""
    source = Source(root)
    return [*(law(source) for law in SOURCE_LAWS), *import_laws(root)]


def main(arguments: list[str]) -> int:
    """Print every law; returns 1 if one is broken."""
    found = laws(*map(Path, arguments))
    for law in found:
        print(law)
    return int(any(law.faults for law in found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
