"""Keras's own mixed precision, which must not act together with the rewrite."""

from __future__ import annotations

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
