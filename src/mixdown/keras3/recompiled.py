"""A compiled model of Keras 3 or tf_keras, compiled again with another optimizer: `with_optimizer`."""

from typing import Any


def with_optimizer(library: Any, model: Any, optimizer: Any) -> None:
    """Compile a model anew as it was, but for the optimizer, which keeps its state; `library` is the model's."""
    # Private, in both libraries: of what `compile` was given, the public configuration has descriptions only, from
    # which a loss or metric of the user's own may not come back.
    given = {**model._compile_config.config, "optimizer": optimizer}
    library.Model.compile(model, **given)  # of the base class: what a compile of the model's own has set stays
