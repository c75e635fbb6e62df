"""Keras's own mixed precision, which the rewrite cannot be combined with: `mixed_keras_policy`. It imports no Keras."""

import sys


def mixed_keras_policy() -> str | None:
    """The global Keras dtype policy that mixes precisions already, with the library it belongs to, if there is one."""
    if keras := sys.modules.get("keras"):
        policy = keras.config.dtype_policy()
        if policy.compute_dtype != policy.variable_dtype:
            return f"keras's {policy.name}"
    if tf_keras := sys.modules.get("tf_keras"):
        policy = tf_keras.mixed_precision.global_policy()
        if policy.compute_dtype != policy.variable_dtype:
            return f"tf_keras's {policy.name}"
    return None


def refuse_mixed_policy() -> None:
    """Refuse to enable the rewrite while a Keras dtype policy mixes precisions in all layers."""
    if conflict := mixed_keras_policy():
        raise ValueError(
            f"The dtype policy {conflict} is set for all layers: it and the rewrite cannot both choose precisions. "
            f"Set the policy 'float32' again, or do not enable the rewrite."
        )
