"""Whether a wrapped optimizer is used as it must be: the loss scaled by it, the gradients applied by it."""

from __future__ import annotations

import atexit
import warnings
import weakref
from typing import Any

from mixdown.core import MixdownWarning


class Usage:
    """What one wrapped optimizer has seen so far. It lives on after the optimizer to tell what became of it."""

    def __init__(self) -> None:
        self.scaled = False
        self._warned = False

    def note_scaled(self) -> None:
        """The optimizer scaled a loss, or handed out its scale."""
        self.scaled = True

    def note_applied(self) -> None:
        """The optimizer was given gradients: of a loss it scaled, it is to be hoped."""
        if not self.scaled and not self._warned:
            self._warned = True
            warnings.warn(
                "Gradients were applied whose loss this optimizer never scaled: they are divided by the loss scale all "
                "the same and become tiny. Let the optimizer compute them (minimize, compute_gradients), or scale the "
                "loss inside the GradientTape: loss = optimizer.scale_loss(loss) (Keras 3), or "
                "optimizer.get_scaled_loss(loss) and optimizer.get_unscaled_gradients(gradients) (tf_keras).",
                MixdownWarning,
                stacklevel=4,
            )


def watch(optimizer: Any) -> None:
    """Warn if the optimizer that `enable` returned is thrown away, or kept but never used."""
    usage = optimizer.usage
    weakref.finalize(optimizer, _thrown_away, usage).atexit = False
    _watched[id(usage)] = (weakref.ref(optimizer), usage)


_watched: dict[int, tuple[weakref.ref[Any], Usage]] = {}

ADVICE = (
    "Mixed precision is on, but the optimizer that enable_mixed_precision_graph_rewrite returned was {what}: "
    "without its loss scaling, gradients may vanish in 16 bits. Train with it: opt = enable_...(opt)."
)


def _thrown_away(usage: Usage) -> None:
    if not usage.scaled:
        warnings.warn(ADVICE.format(what="thrown away"), MixdownWarning, stacklevel=2)


@atexit.register
def _never_used() -> None:
    if any(optimizer() is not None and not usage.scaled for optimizer, usage in _watched.values()):
        warnings.warn(ADVICE.format(what="never used"), MixdownWarning, stacklevel=2)
