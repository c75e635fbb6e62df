"""The documented names, put back where TensorFlow's documentation has them. Start with `install`."""

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import mixdown
from mixdown.core import Policy

ENABLE = "enable_mixed_precision_graph_rewrite"
NAMES = (
    "DynamicLossScale",
    "FixedLossScale",
    "LossScale",
    "MixedPrecisionLossScaleOptimizer",
    "disable_mixed_precision_graph_rewrite",
    ENABLE,
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

    documented = {name: getattr(mixdown, name) for names in HOMES.values() for name in names}
    if policy is not None:
        enable = documented[ENABLE]
        documented[ENABLE] = functools.wraps(enable)(functools.partial(enable, policy=policy))
    for path, names in HOMES.items():
        home = _module(tf, path)
        for name in names:
            _set(home, name, documented[name])


def uninstall() -> None:
    """Leave TensorFlow's namespaces as they were."""
    while _undo:
        _undo.pop()()


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
        if (gone or name == f"{root.__name__}.{path}") and name not in sys.modules:
            sys.modules[name] = here
            _undo.append(functools.partial(sys.modules.pop, name, None))
    return here


def _set(owner: Any, name: str, value: Any) -> None:
    before = getattr(owner, name, _MISSING)
    setattr(owner, name, value)
    _undo.append(lambda: delattr(owner, name) if before is _MISSING else setattr(owner, name, before))
