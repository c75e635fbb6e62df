"""The names in backticks that docstrings of the source mention, and whether each exists. Start with `unknown`.

Checked are identifiers (`make_plan`, `Site`), dotted names (`Twin.sync`, `tf.function`), names with a star (`with_*`)
and options (`--devices`). Passed over is what is plainly code, a path or a command: whatever holds a space, a quotation
mark, a bracket with something in it, or one of `= / $ @ : +`.

An identifier exists if the module that mentions it defines or imports it, in any way; if any module of the source
defines it as a module, class, function, method, constant, attribute or key of a table; or if it is an op kind, a dtype
or a keyword. A parameter or another string counts only in the module that mentions it: no function `wire` is there just
because an argument somewhere else has that name.
"""

import ast
import keyword
import re
from collections import defaultdict
from collections.abc import Iterator
from fnmatch import fnmatchcase
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

TICKED: Final = re.compile(r"(?<!`)`([^`\n]+)`(?!`)|``([^`]+)``")
CODE: Final = re.compile(r"[\s'\"=/$@:+\[\]<>]|\([^)]|\)\.|^[^\w*-]|^\d")  # also suffixes (`.json`) and versions
FILE: Final = re.compile(r"\w+\.(pb|pbtxt|json|html|txt|npz|h5|keras|py|md)")
DTYPES: Final = frozenset({"float16", "bfloat16", "float32", "float64", "int8", "int32", "int64", "bool"})
LIBRARIES: Final = {
    "tf": "tensorflow",
    "tensorflow": "tensorflow",
    "keras": "keras",
    "tf_keras": "tf_keras",
    "jax": "jax",
    "optax": "optax",
    "nnx": "flax.nnx",
    "equinox": "equinox",
}
PYTHON: Final = ("builtins", "os", "sys", "json", "warnings", "logging", "importlib", "functools")

# Names of others that docstrings use without saying whose they are -> where they are defined: each is looked up.
OUTSIDE: Final = {
    "GATE_GRAPH": "tensorflow.compat.v1.train.Optimizer.GATE_GRAPH",
    "GATE_NONE": "tensorflow.compat.v1.train.Optimizer.GATE_NONE",
    "GATE_OP": "tensorflow.compat.v1.train.Optimizer.GATE_OP",
    "MonitoredTrainingSession": "tensorflow.compat.v1.train.MonitoredTrainingSession",
    "UnknownError": "tensorflow.errors.UnknownError",
    "add_subparsers": "argparse.ArgumentParser.add_subparsers",
    "apply_gradients": "tf_keras.optimizers.Optimizer.apply_gradients",
    "argnums": "jax.grad",  # a parameter of it
    "assets.extra": "tensorflow.saved_model.ASSETS_DIRECTORY",  # a folder that stands beside that one in a SavedModel
    "compile": "keras.Model.compile",
    "fit": "keras.Model.fit",
    "get_bind_params": "jax.extend.core.Primitive.get_bind_params",
    "gradient_accumulation_steps": "keras.optimizers.Optimizer",  # a parameter of it
    "history.history": "keras.callbacks.History",  # `fit` returns one, which has the attribute then
    "legacy": "tf_keras.optimizers.legacy",
    "load_model": "keras.saving.load_model",
    "loaded.signatures": "tensorflow.saved_model.load",  # an attribute of what it returns
    "merge_all": "tensorflow.compat.v1.summary.merge_all",
    "minimize": "tf_keras.optimizers.Optimizer.minimize",
    "model.train_on_batch": "keras.Model.train_on_batch",
    "pmap": "jax.pmap",
    "relu": "jax.nn.relu",
    "stacklevel": "warnings.warn",  # a parameter of it
    "vdot": "jax.numpy.vdot",
}


def _kind_files(root: Path) -> list[Path]:
    """The files that list the op kinds of TensorFlow and the primitives of JAX."""
    return [*root.glob("rules/*_kinds.txt"), *root.glob("rules/*_primitives.txt")]


class Mention(NamedTuple):
    """A name in backticks, and the module and line of the docstring that it stands in."""

    name: str
    module: str
    line: int


class Names:
    """Every name that the source under a folder defines: `everywhere`, and in each module."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.trees = {_module(root, path): ast.parse(path.read_text("utf-8")) for path in sorted(root.rglob("*.py"))}
        self.everywhere = {part for module in self.trees for part in module.split(".")}
        self.local: dict[str, set[str]] = defaultdict(set)
        self.texts: set[str] = set()
        self.members: dict[str, set[str]] = defaultdict(set)  # class or module, by its last name -> what it has
        self.bases: dict[str, set[str]] = defaultdict(set)
        for module, tree in self.trees.items():
            self._read_module(module, tree)
        self.kinds = {kind for path in _kind_files(root) for kind in path.read_text("utf-8").split()}

    def _read_module(self, module: str, tree: ast.Module) -> None:
        package, _, last = module.rpartition(".")
        self.members[package.rpartition(".")[2]].add(last)
        own = self.members[last]
        own |= set(_bound(tree.body))
        for node in ast.walk(tree):
            match node:
                case ast.ClassDef():
                    own_of_class = {*_bound(node.body), *_attributes(node)}
                    self.members[node.name] |= own_of_class
                    self.bases[node.name] |= {ast.unparse(base).split("[")[0].split(".")[-1] for base in node.bases}
                    self.everywhere |= {node.name, *own_of_class}
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self.everywhere.add(node.name)
                case ast.arg():
                    self.local[module].add(node.arg)
                case ast.alias():
                    self.local[module] |= {*node.name.split("."), node.asname or node.name}
                case ast.Constant(value=str(text)) if text.isidentifier() or text.startswith("--"):
                    self.local[module].add(text)
                    self.texts.add(text)
                case ast.Dict():
                    self.everywhere |= {str(key.value) for key in node.keys if isinstance(key, ast.Constant)}
        self.everywhere |= own

    def inside(self, package: str) -> set[str]:
        """Return the modules of a package and what they define."""
        modules = [module for module in self.trees if module == package or module.startswith(f"{package}.")]
        bodies = (self.trees[module].body for module in modules)
        own = ([node for node in body if not isinstance(node, ast.Import | ast.ImportFrom)] for body in bodies)
        defined = {name for body in own for name in _bound(body)}
        return defined | {module.rpartition(".")[2] for module in modules if module != package}

    def has(self, mention: Mention) -> bool:
        """Whether a name that a docstring mentions exists."""
        name = mention.name.removesuffix("()")
        if name in OUTSIDE:
            return resolves(OUTSIDE[name])
        if "*" in name:
            return any(fnmatchcase(known, name) for known in self.everywhere | self.texts)
        if "." in name:
            return FILE.fullmatch(name) is not None or self._has_dotted(name)
        return (
            name in self.everywhere | self.local[mention.module] | self.kinds | DTYPES | set(LIBRARIES)
            or keyword.iskeyword(name)
            or any(resolves(f"{module}.{name}") for module in PYTHON)
        )

    def _has_dotted(self, name: str) -> bool:
        first, _, rest = name.partition(".")
        if first in LIBRARIES:
            return resolves(f"{LIBRARIES[first]}.{rest}")
        if first == self.root.name or first in PYTHON:
            return resolves(name)
        parts = name.split(".")
        return all(self._has_member(owner, part) for owner, part in pairwise(parts))

    def _has_member(self, owner: str, name: str) -> bool:
        return name in self.members.get(owner, ()) or any(self._has_member(base, name) for base in self.bases[owner])


def _module(root: Path, path: Path) -> str:
    parts = [root.name, *path.relative_to(root).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _bound(body: list[ast.stmt]) -> Iterator[str]:
    """The names that the statements of a module or class bind, also under `if`, `try` and `with`."""
    for node in body:
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.name
            case ast.Assign():
                yield from (
                    name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)
                )
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.Import() | ast.ImportFrom():
                yield from (alias.asname or alias.name for alias in node.names)
            case ast.If() | ast.Try() | ast.With():
                yield from _bound([part for part in ast.iter_child_nodes(node) if isinstance(part, ast.stmt)])


def _attributes(node: ast.ClassDef) -> Iterator[str]:
    """The attributes that the methods of a class set on `self` or `cls`."""
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store) and isinstance(part.value, ast.Name):
            yield part.attr


def resolves(path: str) -> bool:
    """Whether a dotted path leads somewhere, by imports and then by attributes."""
    parts = path.split(".")
    found = None
    for end in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:end]))
        except ImportError:
            continue
        for part in parts[end:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


def mentions(names: Names) -> Iterator[Mention]:
    """The names in the docstrings of the source that are to be looked up."""
    for module, tree in names.trees.items():
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                text = node.value.value
                for found in TICKED.finditer(text):
                    name = found[1] or found[2]
                    if not CODE.search(name):
                        yield Mention(name, module, node.lineno + text.count("\n", 0, found.start()))


def unknown(root: Path) -> list[str]:
    """The names that docstrings under a folder mention and that do not exist, each with its module and line."""
    names = Names(root)
    return [f"{each.module}:{each.line}: `{each.name}`" for each in mentions(names) if not names.has(each)]
