"""The documented names, put back where TensorFlow's documentation has them. Start with `install`."""

from __future__ import annotations

import functools
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
HOMES = {
    "train.experimental": NAMES,
    "compat.v1.train.experimental": NAMES,
    "compat.v2.train.experimental": NAMES,
    "compat.v1.mixed_precision": NAMES,
    "mixed_precision.experimental": NAMES,
    "keras.mixed_precision.experimental": ("LossScaleOptimizer",),
}
"""Where below `tensorflow` which names belong."""

_MISSING = object()
_replaced: list[tuple[Any, str, Any]] = []  # owner, name, what it was before


def install(policy: Policy | None = None) -> None:
    """Make the documented names work: an old script then runs as it was written. `uninstall` takes them away again.

    Args:
        policy: what `enable_mixed_precision_graph_rewrite` uses when it is called by its documented name.
    """
    if _replaced:
        return
    import tensorflow as tf  # noqa: PLC0415 - `import mixdown.compat` must not load it before it is asked to

    for path, names in HOMES.items():
        home = _module(tf, path)
        for name in names:
            _set(home, name, _documented(name, policy))


def uninstall() -> None:
    """Leave TensorFlow's namespaces as they were."""
    while _replaced:
        owner, name, before = _replaced.pop()
        if before is _MISSING:
            delattr(owner, name)
        else:
            setattr(owner, name, before)


def _documented(name: str, policy: Policy | None) -> Any:
    value = getattr(mixdown, name)
    if policy is None or name != "enable_mixed_precision_graph_rewrite":
        return value
    return functools.wraps(value)(functools.partial(value, policy=policy))


def _module(root: Any, path: str) -> Any:
    """The module at a path, made anew where it is gone."""
    here = root
    for part in path.split("."):
        if not hasattr(here, part):
            _set(here, part, ModuleType(f"{here.__name__}.{part}"))
        here = getattr(here, part)
    return here


def _set(owner: Any, name: str, value: Any) -> None:
    _replaced.append((owner, name, getattr(owner, name, _MISSING)))
    setattr(owner, name, value)
