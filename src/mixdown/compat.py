"""The documented names, put back where TensorFlow's documentation has them. Start with `install`."""

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import mixdown
from mixdown.core import Policy

NAMES = (
    "DynamicLossScale",
    "FixedLossScale",
    "LossScale",
    "MixedPrecisionLossScaleOptimizer",
    "disable_mixed_precision_graph_rewrite",
    "enable_mixed_precision_graph_rewrite",
)
SCALES = NAMES[:3]
HOMES = {
    "train.experimental": NAMES,
    "compat.v1.train.experimental": NAMES,
    "compat.v2.train.experimental": NAMES,
    "compat.v1.mixed_precision": NAMES,
    "mixed_precision.experimental": NAMES,
    "compat.v1.mixed_precision.experimental": SCALES,
    "compat.v2.mixed_precision.experimental": SCALES,
    "keras.mixed_precision.experimental": ("LossScaleOptimizer",),
}
"""Where below `tensorflow` which names belong."""

_MISSING = object()
_undo: list[Callable[[], object]] = []  # what `uninstall` does, from the last to the first


def install(policy: Policy | None = None) -> None:
    """Make the documented names work: an old script then runs as it was written. `uninstall` takes them away again.

    Args:
        policy: what `enable_mixed_precision_graph_rewrite` uses when it is called by its documented name.
    """
    if _undo:
        return
    import tensorflow as tf  # noqa: PLC0415 - `import mixdown.compat` must not load it before it is asked to

    documented = {name: _documented(name, policy) for names in HOMES.values() for name in names}
    for path, names in HOMES.items():
        home = _module(tf, path)
        for name in names:
            _set(home, name, documented[name])


def uninstall() -> None:
    """Leave TensorFlow's namespaces as they were."""
    while _undo:
        _undo.pop()()


def _documented(name: str, policy: Policy | None) -> Any:
    value = getattr(mixdown, name)
    if policy is None or name != "enable_mixed_precision_graph_rewrite":
        return value
    return functools.wraps(value)(functools.partial(value, policy=policy))


def _module(root: Any, path: str) -> Any:
    """The module at a path, made anew where it is gone; an `import` of the path finds the same one.

    TensorFlow's public paths are attributes: importing one of them loads its file a second time, as another module.
    """
    here, name = root, root.__name__
    for part in path.split("."):
        name = f"{name}.{part}"
        gone = not hasattr(here, part)
        if gone:
            _set(here, part, ModuleType(name))
        here = getattr(here, part)
        if gone or name == f"{root.__name__}.{path}":
            _import_as(name, here)
    return here


def _import_as(name: str, module: Any) -> None:
    if name not in sys.modules:
        sys.modules[name] = module
        _undo.append(lambda: sys.modules.pop(name, None))


def _set(owner: Any, name: str, value: Any) -> None:
    before = getattr(owner, name, _MISSING)
    setattr(owner, name, value)
    _undo.append(lambda: delattr(owner, name) if before is _MISSING else setattr(owner, name, before))
