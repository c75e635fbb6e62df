"""Warnings about wrapped optimizers that are not used as they must be: to scale the loss, and to apply gradients."""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Callable
from typing import Any

from mixdown.messages import warn


class Usage:
    """How one wrapped optimizer was used so far. It outlives the optimizer, so that misuse can be reported then."""

    when_first_applied: Callable[[], None] = staticmethod(lambda: None)
    """Called when an optimizer is first given gradients, once for each; the host may set it."""

    def __init__(self) -> None:
        self.scaled = False
        self.applied = False

    def note_scaled(self) -> None:
        """The optimizer scaled a loss, or handed out its scale."""
        self.scaled = True

    def note_applied(self, harm: str) -> None:
        """The optimizer was given gradients; warn the first time if it never scaled a loss.

        Args:
            harm: what then happens to gradients, UNDIVIDED or UNSCALED; "" not to warn.
        """
        if not self.applied:
            if harm and not self.scaled:
                warn(BARE.format(harm=harm))
            self.when_first_applied()
        self.applied = True

    @property
    def is_idle(self) -> bool:
        """Whether the optimizer has neither scaled a loss nor applied gradients so far."""
        return not (self.scaled or self.applied)


BARE = (
    "Gradients were applied of a loss that this optimizer never scaled: {harm}. Let the optimizer compute them (fit, "
    "minimize, compute_gradients), or scale the loss inside the GradientTape: optimizer.scale_loss(loss) with Keras 3, "
    "optimizer.get_scaled_loss(loss) and then optimizer.get_unscaled_gradients(gradients) with tf_keras."
)
UNDIVIDED = "they are not divided by the loss scale, and small ones may have become zero in 16 bits"
UNSCALED = "small ones may have become zero in 16 bits"


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
    _watched.pop(id(usage), None)
    if usage.is_idle:
        warn(ADVICE.format(what="thrown away"))


@atexit.register
def _never_used() -> None:
    if any(optimizer() is not None and usage.is_idle for optimizer, usage in _watched.values()):
        warn(ADVICE.format(what="never used"))
