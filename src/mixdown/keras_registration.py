"""Lets Keras find mixdown's optimizers in saved files, whichever of the two is imported first. Start with `watch`.

Keras looks classes up by name in a table. `import mixdown` puts stand-ins there, which import the real classes when a
file asks for one; if Keras has not been imported yet, as soon as it has been. Neither costs anything or imports a
framework.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

OPTIMIZERS = "mixdown.tensorflow.loss_scaling.optimizers"

CLASSES = {
    "keras": {"Keras3LossScaleOptimizer": f"{OPTIMIZERS}.keras3"},
    "tf_keras": {
        "TfKerasLossScaleOptimizer": f"{OPTIMIZERS}.tf_keras",
        "TfKerasLegacyLossScaleOptimizer": f"{OPTIMIZERS}.tf_keras_legacy",
    },
}
"""Library -> its classes that saved files may name, and their homes."""


def watch() -> None:
    """See to it that every Keras knows our classes from the moment it is there."""
    for library in CLASSES:
        if library in sys.modules:
            introduce(library)
    sys.meta_path.insert(0, Watcher())


def introduce(library: str) -> None:
    """Put stand-ins for our classes into the library's table of classes, but never over the classes themselves."""
    known = sys.modules[library].utils.get_custom_objects()
    for name, home in CLASSES[library].items():
        known.setdefault(f"mixdown>{name}", stand_in(name, home))


def stand_in(name: str, home: str) -> type:
    """A class that knows how to be made from a saved configuration: by becoming the real one."""

    def from_config(_: type, config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> object:
        return getattr(import_module(home), name).from_config(config, custom_objects)

    return type(name, (), {"from_config": classmethod(from_config)})


class Watcher(MetaPathFinder):
    """Asked by Python where a module is; it finds nothing itself, but hears of every Keras that is imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Where the module is, if it is a Keras, prepared to tell us when it has been imported."""
        if fullname not in CLASSES:
            return None
        later = sys.meta_path[next(i + 1 for i, each in enumerate(sys.meta_path) if each is self) :]
        specs = (each.find_spec(fullname, path, target) for each in later)  # an earlier one may be asking us
        return next((announced(spec) for spec in specs if spec is not None), None)


def announced(spec: ModuleSpec) -> ModuleSpec:
    """The same spec; once its module has been executed, our classes are introduced to it."""
    if spec.loader is not None:
        execute = spec.loader.exec_module

        def execute_and_introduce(module: ModuleType) -> None:
            execute(module)
            introduce(spec.name)

        spec.loader.exec_module = execute_and_introduce  # type: ignore[method-assign]  # a loader is made for one import
    return spec
