"""One table names every private symbol of TensorFlow and Keras that mixdown touches, and each of them is there."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from types import new_class
from typing import Any

import keras
import pytest
import tensorflow as tf
import tf_keras

import mixdown
from mixdown.private_names import Private, dotted
from mixdown.tensorflow import install
from mixdown.tensorflow.calls import call_hook
from mixdown.tensorflow.runtime import private
from mixdown.tensorflow.sessions import hook

PACKAGE = Path(mixdown.__file__).parent
TABLES = [PACKAGE / path for path in ("tensorflow/runtime/private.py", "keras3/private.py", "jax/private.py")]
PRIVATE_HOMES = ("tensorflow.python", "keras.src", "tf_keras.src", "keras._", "tf_keras._")
LISTED = {dotted(each.path) for each in private.NAMES.values()}
USED = {name for each in private.NAMES.values() for name in each.has} | {path.rpartition(".")[2] for path in LISTED}
PYTHONS_OWN = {"_asdict", "_fields", "_replace", "_getframe", "_exit"}  # of NamedTuple, of sys and of os
TF_KERAS_MARK = {
    "_is_wrapped_by_loss_scale_optimizer"
}  # put on optimizers by mixdown and tf_keras; nobody need have it

OF_A_CONTEXT = {"_collective_ops_server_def"}  # of the object, not of its class; asked for with a default

ASKERS = {"getattr", "hasattr", "setattr"}


def sources() -> list[tuple[Path, ast.Module]]:
    return [(path, ast.parse(path.read_text("utf-8"))) for path in sorted(PACKAGE.rglob("*.py")) if path not in TABLES]


def own_names() -> set[str]:
    """Every private name that mixdown itself defines: call_hook, classes, attributes, annotated fields."""
    out: set[str] = set()
    for _, tree in sources():
        for each in ast.walk(tree):
            match each:
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                    out.add(name)
                case ast.Attribute(attr=name, ctx=ast.Store(), value=ast.Name(id="self")):
                    out.add(name)
                case ast.AnnAssign(target=ast.Name(id=name)) | ast.AnnAssign(target=ast.Attribute(attr=name)):
                    out.add(name)
    return out


def touched(tree: ast.Module) -> list[tuple[int, str]]:
    """Every private attribute that a module reaches for, with `.` or by its name as text."""
    out = []
    for each in ast.walk(tree):
        match each:
            case ast.Attribute(attr=name):
                out.append((each.lineno, name))
            case ast.Call(
                func=ast.Name(id="getattr" | "hasattr" | "setattr"), args=[_, ast.Constant(value=str(name)), *_]
            ):
                out.append((each.lineno, name))
    return [(line, name) for line, name in out if _is_private(name)]


def _is_private(name: str) -> bool:
    return name == "__internal__" or (name.startswith("_") and not name.endswith("__"))


def imported(tree: ast.Module) -> list[str]:
    out = []
    for each in ast.walk(tree):
        match each:
            case ast.Import(names=names):
                out += [name.name for name in names]
            case ast.ImportFrom(module=str(module), names=names):
                out += [f"{module}.{name.name}" for name in names]
    return out


def test_no_other_file_imports_a_private_module() -> None:
    found = {str(path): [name for name in imported(tree) if name.startswith(PRIVATE_HOMES)] for path, tree in sources()}
    assert {path: names for path, names in found.items() if names} == {}


def test_no_other_file_reaches_for_a_private_attribute_that_is_not_listed() -> None:
    allowed = own_names() | USED | PYTHONS_OWN | TF_KERAS_MARK | OF_A_CONTEXT
    strays = {
        f"{path.relative_to(PACKAGE)}:{line}": name
        for path, tree in sources()
        for line, name in touched(tree)
        if name not in allowed
    }
    assert strays == {}


def test_every_private_path_in_a_text_is_listed() -> None:
    texts = {
        each.value
        for _, tree in sources()
        for each in ast.walk(tree)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    }
    assert {text for text in texts if text.startswith(PRIVATE_HOMES)} <= LISTED


def test_every_name_is_used_and_every_use_is_listed() -> None:
    wanted = {
        name.rpartition(".")[2]
        for _, tree in sources()
        for name in imported(tree)
        if name.startswith(("mixdown.tensorflow.runtime.private.", "mixdown.keras3.private."))
    } - {"Missing", "refuse_missing", "missing"}
    assert wanted <= private.NAMES.keys()
    said = " ".join(path.read_text("utf-8") for path, _ in sources())
    unused = [name for each in private.NAMES.values() for name in each.has if name not in said]
    assert unused == []


@pytest.mark.parametrize("library", ["tensorflow", "keras", "tf_keras"])
def test_every_listed_name_is_there_and_is_what_it_was(library: str) -> None:
    assert {each.package for each in private.NAMES.values()} == {"tensorflow", "keras", "tf_keras"}
    assert library in sys.modules
    assert private.missing(library) == []


OPTIMIZERS = {
    "tensorflow": lambda: tf.compat.v1.train.GradientDescentOptimizer(0.1),
    "keras": lambda: keras.optimizers.SGD(0.1),
    "tf_keras": lambda: tf_keras.optimizers.SGD(0.1),
}
ADVICE = {
    "tensorflow": "mixdown was checked with TensorFlow 2.16.2, 2.18.1 and 2.21.0. Use TensorFlow 2.16 to 2.21: pip ins",
    "keras": "mixdown was checked with Keras 3.15.1. Use Keras 3.15: pip install 'keras==3.15.*'.",
    "tf_keras": "mixdown was checked with tf_keras 2.16.0, 2.18.0 and 2.21.0. Use the tf_keras of your TensorFlow",
}
GONE: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "a class": ("tensorflow", "Operation", {"path": "tensorflow.core:Gone"}, "tensorflow.core.Gone"),
    "a module": ("tensorflow", "c_api", {"path": "tensorflow.python.client.gone:"}, "tensorflow.python.client.gone"),
    "a method": ("tensorflow", "Context", {"has": ("twin",)}, "tensorflow.python.eager.context.Context.twin"),
    "of an instance": (
        "tensorflow",
        "BaseSession",
        {"has": ("_gone",)},
        "tensorflow.python.client.session.BaseSession._gone",
    ),
    "of Keras": ("keras", "Keras3Variable", {"has": ("_gone",)}, "keras.Variable._gone"),
    "of tf_keras": ("tf_keras", "TfKerasOptimizer", {"path": "tf_keras.src:Optimizer"}, "tf_keras.src.Optimizer"),
}


@pytest.mark.parametrize("case", GONE)
def test_enabling_refuses_a_library_that_lacks_a_name(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    library, key, change, path = GONE[case]
    call_hook.uninstall()
    hook.uninstall()
    before = private.Context.call_function
    monkeypatch.setitem(private.NAMES, key, private.NAMES[key]._replace(**change))
    with pytest.raises(mixdown.MixdownError) as refused:
        mixdown.enable_mixed_precision_graph_rewrite(OPTIMIZERS[library](), policy=mixdown.Policy(devices="all"))
    assert f" has no {path} (" in str(refused.value)
    assert ADVICE[library] in str(refused.value)
    assert private.Context.call_function is before


def test_enabling_refuses_a_method_that_takes_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    call_hook.uninstall()
    changed = private.NAMES["call_function"]._replace(takes=("self", "handle"))
    monkeypatch.setitem(private.NAMES, "call_function", changed)
    told = r"Context.call_function with \(self, name, tensor_inputs, num_outputs\), not with \(self, handle\)\."
    with pytest.raises(mixdown.MixdownError, match=told):
        install.install()


def test_whoever_uses_a_missing_name_is_told_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(private.NAMES, "gone", Private("tensorflow.python.gone:Thing", "a purpose"))
    gone = private.gone
    told = r"^TensorFlow \S+ has no tensorflow.python.gone.Thing \(a purpose\)\. mixdown was checked with"
    with pytest.raises(mixdown.MixdownError, match=told):
        gone()
    with pytest.raises(mixdown.MixdownError, match=told):
        _ = gone.attribute
    with pytest.raises(mixdown.MixdownError, match=told):
        new_class("Child", (gone,))
    with pytest.raises(mixdown.MixdownError, match=told):
        isinstance(7, (bool, gone))


def test_an_unknown_name_is_no_private_name() -> None:
    with pytest.raises(AttributeError, match="nonsense is not in the table of private names"):
        _ = private.nonsense
