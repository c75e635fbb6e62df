"""What works with Keras 3 and tf_keras alike, and imports neither: `mixed_keras_policy` and `with_optimizer`."""

import sys
from typing import Any


def mixed_keras_policy() -> str | None:
    """The global Keras dtype policy that mixes precisions already, with the library it belongs to, if there is one."""
    keras, tf_keras = map(sys.modules.get, ("keras", "tf_keras"))
    policies = {"keras": keras.config.dtype_policy()} if keras else {}
    policies |= {"tf_keras": tf_keras.mixed_precision.global_policy()} if tf_keras else {}
    mixed = (f"{name}'s {each.name}" for name, each in policies.items() if each.compute_dtype != each.variable_dtype)
    return next(mixed, None)


def refuse_mixed_policy() -> None:
    """Refuse to enable the rewrite while a Keras dtype policy mixes precisions in all layers."""
    if conflict := mixed_keras_policy():
        raise ValueError(
            f"The dtype policy {conflict} is set for all layers: it and the rewrite cannot both choose precisions. "
            f"Set the policy 'float32' again, or do not enable the rewrite."
        )


def with_optimizer(library: Any, model: Any, optimizer: Any) -> None:
    """Compile a model anew as it was, but for the optimizer, which keeps its state; `library` is the model's."""
    # Private, in both libraries: of what `compile` was given, the public configuration has descriptions only, from
    # which a loss or metric of the user's own may not come back.
    given = {**model._compile_config.config, "optimizer": optimizer}
    library.Model.compile(model, **given)  # of the base class: what a compile of the model's own has set stays
