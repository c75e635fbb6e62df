"""The optimizers that scale the loss, one wrapper class per library. An optimizer comes in, a wrapped one goes out.

The door is `LossScaleOptimizer`, which picks the wrapper by the library the optimizer comes from. It imports no
library to find that out: that of an existing optimizer is imported already.
"""

from importlib import import_module
from typing import Any

from mixdown.errors import WrongTypeError
from mixdown.tensorflow.runtime.private import refuse_missing

TF_KERAS = f"{__name__}.tf_keras"

# The class all optimizers of a library descend from -> the module and the class of its wrapper. Comparing names imports
# nothing; they are in the table of private names, too.
HOMES = {
    "keras.src.optimizers.base_optimizer.BaseOptimizer": ("mixdown.keras3.optimizer", "Keras3LossScaleOptimizer"),
    "tf_keras.src.optimizers.optimizer.Optimizer": (TF_KERAS, "TfKerasLossScaleOptimizer"),
    "tf_keras.src.optimizers.legacy.optimizer_v2.OptimizerV2": (TF_KERAS, "TfKerasLegacyLossScaleOptimizer"),
}
TF_V1 = "tensorflow.python.training.optimizer.Optimizer"
WRAPPED = {
    "keras.src.optimizers.loss_scale_optimizer.LossScaleOptimizer",
    "tf_keras.src.mixed_precision.loss_scale_optimizer.BaseLossScaleOptimizer",
    "tensorflow.python.training.experimental.loss_scale_optimizer.MixedPrecisionLossScaleOptimizer",
    f"{__name__}.v1.MixedPrecisionLossScaleOptimizer",
}


def LossScaleOptimizer(inner: Any, loss_scale: Any = "dynamic", *, skip_limit: int | None = None) -> Any:  # noqa: N802 - used like a class, which it picks
    """Wrap an optimizer of Keras 3 on TensorFlow or of tf_keras: `mixdown.choose_host` says how, and what is raised."""
    if ancestors(inner) & WRAPPED:
        raise ValueError(
            f"LossScaleOptimizer cannot wrap {type(inner).__name__}, which scales the loss already. "
            "Pass the optimizer inside it instead."
        )
    found = home_of(inner)
    if found is None:
        raise WrongTypeError(f"LossScaleOptimizer needs a Keras 3 or tf_keras optimizer, but {what_came(inner)}")
    refuse_missing(found.partition(".")[0])
    module, kind = HOMES[found]
    return getattr(import_module(module), kind)(inner, loss_scale, skip_limit=skip_limit)


def home_of(inner: Any) -> str | None:
    """The key of `HOMES` that an optimizer descends from; None if there is none."""
    return next((each for each in HOMES if each in ancestors(inner)), None)


def ancestors(inner: Any) -> set[str]:
    """The names of the classes that an object is an instance of."""
    return {f"{each.__module__}.{each.__qualname__}" for each in type(inner).__mro__}


def what_came(inner: Any) -> str:
    """What was passed instead of an optimizer, and what to pass."""
    if TF_V1 in ancestors(inner):
        return (
            f"got the v1 optimizer {type(inner).__name__}. "
            "Use mixdown.MixedPrecisionLossScaleOptimizer for v1 optimizers."
        )
    if isinstance(inner, type):
        return f"got the class {inner.__name__}. Pass an instance: {inner.__name__}()."
    if isinstance(inner, str):
        return f"got the string {inner!r}. Pass keras.optimizers.get({inner!r})."
    return f"got {inner!r} of type {type(inner).__name__}."
