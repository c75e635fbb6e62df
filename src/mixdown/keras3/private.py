"""Every private name of Keras 3 that mixdown touches, in one table: `NAMES`. Other modules import them from here."""

from typing import Any

from mixdown.errors import MixdownError
from mixdown.private_names import Private, missing, resolved

CHECKED = "Keras 3.15.1"
"""The releases that every name below was looked up in."""

WAY_OUT = "Use Keras 3.15: pip install 'keras==3.15.*'."
ADVICE = f"mixdown was checked with {CHECKED}. {WAY_OUT}"

NAMES = {
    "Keras3Optimizer": Private(
        "keras.src.optimizers.base_optimizer:BaseOptimizer",
        "the class that all Keras 3 optimizers descend from",
        has=("_get_variable_index", "_trainable_variables", "_variables"),
    ),
    "Keras3LossScaleOptimizer": Private(
        "keras.src.optimizers.loss_scale_optimizer:LossScaleOptimizer", "an optimizer that scales the loss already"
    ),
    "Keras3Trainer": Private(
        "keras.src.trainers.trainer:Trainer", "what a model was compiled with", has=("_compile_config",)
    ),
    "Keras3Variable": Private("keras:Variable", "whether a weight has its value yet", has=("_value",)),
    "in_stateless_scope": Private(
        "keras.src.backend.common.stateless_scope:in_stateless_scope", "whether state is passed around, as JAX has it"
    ),
}
"""What other modules import from here -> what it is."""


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(f"{name} is not in the table of private names.")
    return resolved(NAMES[name], ADVICE)


def refuse_missing() -> None:
    """Refuse to go on with a Keras that lacks a private name, or in which one is not what it was."""
    if problems := missing(NAMES.values()):
        raise MixdownError(f"{' '.join(problems)} {ADVICE}")
