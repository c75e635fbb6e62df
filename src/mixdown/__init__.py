"""Automatic mixed precision by graph rewrite, with loss scaling. The public names, resolved on first use."""

from importlib import import_module
from typing import Any

from mixdown import keras_registration

__version__ = "0.1.0"

# Public name -> the module that defines it, imported on first use: `import mixdown` needs no framework.
_HOMES = {
    "DynamicLossScale": "mixdown.tensorflow.loss_scaling.loss_scale",
    "FixedLossScale": "mixdown.tensorflow.loss_scaling.loss_scale",
    "LossScale": "mixdown.tensorflow.loss_scaling.loss_scale",
    "LossScaleError": "mixdown.errors",
    "LossScaleWarning": "mixdown.errors",
    "LossScaleOptimizer": "mixdown.choose_host",
    "MixedPrecisionLossScaleOptimizer": "mixdown.tensorflow.loss_scaling.optimizers.v1",
    "GraphError": "mixdown.errors",
    "MixdownError": "mixdown.errors",
    "MixdownWarning": "mixdown.errors",
    "PlanError": "mixdown.errors",
    "Policy": "mixdown.core",
    "PolicyError": "mixdown.errors",
    "bisect": "mixdown.tensorflow.numerics.bisect",
    "calibrate": "mixdown.tensorflow.numerics.calibrate",
    "convert_saved_model": "mixdown.tensorflow.convert",
    "disable_mixed_precision_graph_rewrite": "mixdown.choose_host",
    "enable_mixed_precision_graph_rewrite": "mixdown.choose_host",
    "explain": "mixdown.tensorflow.explaining.explain",
    "report": "mixdown.choose_host",
    "rewrite": "mixdown.tensorflow.enable",
    "rewriting": "mixdown.tensorflow.enable",
    "rewrite_graph_def": "mixdown.tensorflow.writing.graph_def",
    "tuned_policy": "mixdown.tensorflow.enable",
    "unwrap": "mixdown.choose_host",
}
_MODULES = ("compat", "jax", "keras", "numerics", "tf_keras")  # public modules, imported on first use too

__all__ = [*sorted(_HOMES), "__version__", *_MODULES]  # noqa: PLE0604 - the table above holds strings


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a public name may be a class or a function
    """Import the module behind a public name when the name is first asked for."""
    if name in _MODULES:
        return import_module(f"mixdown.{name}")
    if name not in _HOMES:
        # Tools look for private names of modules, TensorFlow while it traces: nobody has misspelt those.
        hint = "" if name.startswith("_") else import_module("mixdown.rules.spellings").suggestion(name, _HOMES)
        raise AttributeError(f"module 'mixdown' has no attribute {name!r}{hint}; it has {', '.join(sorted(_HOMES))}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


keras_registration.register()
