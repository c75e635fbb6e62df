"""The one line for Keras on JAX: `enable_for` wraps the optimizer and enables the rewrite of every jitted program."""

from typing import Any

from mixdown.core import Policy
from mixdown.jax.switch import enable
from mixdown.keras3.either_keras import refuse_mixed_policy
from mixdown.keras3.optimizer import Keras3LossScaleOptimizer
from mixdown.keras3.private import refuse_missing
from mixdown.scaling.misuse import watch


def enable_for(opt: Any, loss_scale: Any, policy: Policy | None) -> Any:
    """Do for a Keras 3 optimizer what `mixdown.enable_mixed_precision_graph_rewrite` says; returns it wrapped."""
    refuse_mixed_policy()
    refuse_missing()
    wrapped = Keras3LossScaleOptimizer(opt, loss_scale)
    enable(policy or Policy())  # float16, as documented for the call; the optimizer scales the loss
    watch(wrapped)
    return wrapped
