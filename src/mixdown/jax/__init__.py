"""The JAX host: reads traced programs into the core, and writes them anew as the plan says. Loss scaling in JAX.

What comes in is a function or a jitted program and a policy; what goes out is the same program with ops in 16 bits, and
reports on it. The doors are `enable`, `rewriting` and `rewrite`; the public names are imported on first use.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

if find_spec("jax") is None:
    raise ImportError("mixdown.jax needs JAX: pip install 'mixdown[jax]'")

# Public name -> the module that defines it; no module has the name of a function, which importing it would hide.
_HOMES = {
    "LossScale": "mixdown.jax.loss_scaling",
    "Policy": "mixdown.core",
    "all_finite": "mixdown.jax.loss_scaling",
    "compare": "mixdown.jax.numerics",
    "disable": "mixdown.jax.switch",
    "enable": "mixdown.jax.switch",
    "explain": "mixdown.jax.explaining",
    "locate": "mixdown.jax.numerics",
    "report": "mixdown.jax.explaining",
    "rewrite": "mixdown.jax.functions",
    "rewriting": "mixdown.jax.switch",
    "rewritten_jaxpr": "mixdown.jax.explaining",
    "scaled": "mixdown.jax.loss_scaling",
    "value_and_grad": "mixdown.jax.loss_scaling",
}

__all__ = [*_HOMES]  # noqa: PLE0604 - the table above holds strings


def __getattr__(name: str) -> Any:
    """Import the module behind a public name when the name is first asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module 'mixdown.jax' has no attribute {name!r}; it has {', '.join(sorted(__all__))}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
