"""Registers mixdown's optimizers with Keras, so that `load_model` finds them in saved files. Start with `register`.

Keras looks classes up by name in a table. `import mixdown` puts stand-ins there for every Keras that has been imported
before it; they import the real classes when a file needs one. If Keras is imported later, `import mixdown.keras`
registers them.
"""

import sys
from importlib import import_module
from typing import Any

CLASSES = {
    "keras": ("Keras3LossScaleOptimizer",),
    "tf_keras": ("TfKerasLossScaleOptimizer", "TfKerasLegacyLossScaleOptimizer"),
}
"""Library -> the classes that its saved files may name, which are in mixdown's module of the same name."""


def register() -> None:
    """Put stand-ins into the tables of the Kerases that have been imported, but never over the classes themselves."""
    for library, names in CLASSES.items():
        if library in sys.modules:
            known = sys.modules[library].utils.get_custom_objects()
            for name in names:
                known.setdefault(f"mixdown>{name}", _stand_in(name, f"mixdown.{library}"))


def _stand_in(name: str, home: str) -> type:
    """A class whose `from_config` makes an instance of the real one."""

    def from_config(_: type, config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> object:
        return getattr(import_module(home), name).from_config(config, custom_objects)

    return type(name, (), {"from_config": classmethod(from_config)})
