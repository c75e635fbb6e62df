"""Keras's own mixed precision, which the rewrite cannot be combined with: `mixed_keras_policy`. It imports no Keras."""

import sys


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
