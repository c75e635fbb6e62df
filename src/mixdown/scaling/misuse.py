"""Warnings about wrapped optimizers that are not used as they must be: to scale the loss, and to apply gradients."""

import atexit
import weakref
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from mixdown.errors import LossScaleWarning
from mixdown.messages import warn


class Usage:
    """How one wrapped optimizer was used so far. It outlives the optimizer, so that misuse can be reported then."""

    when_first_applied: Callable[[], None] = staticmethod(lambda: None)
    """Called when an optimizer is first given gradients, once for each; the host may set it."""

    def __init__(self) -> None:
        self.scaled = False
        self.applied = False
        self.warned = False
        # Functions in which a loss was scaled, and whether gradients were then applied in the same function: if so, it
        # is a whole step, and gradients that are applied elsewhere are not those of its loss.
        self.whole_steps: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()
        self.open_losses = 0  # scaled ones of no whole step: their gradients may be applied anywhere

    def note_scaled(self, functions: Sequence[Any] = ()) -> None:
        """The optimizer scaled a loss, or handed out its scale, in functions being traced, innermost first."""
        self.scaled = True
        if not functions:
            self.open_losses += 1
        elif functions[0] not in self.whole_steps:
            self.whole_steps[functions[0]] = False
            self.open_losses += 1

    def note_applied(self, harm: str, functions: Sequence[Any] = ()) -> bool:
        """The optimizer was given gradients: whether they can be those of a loss that it scaled; if not, warn once.

        `harm`, UNDIVIDED or UNSCALED, is what happens to the others; `functions` are being traced, innermost first.
        """
        here = [each for each in functions if each in self.whole_steps]
        self.open_losses -= sum(not self.whole_steps[each] for each in here)
        self.whole_steps.update(dict.fromkeys(here, True))
        scaled = bool(here) or self.open_losses > 0
        if not scaled and not self.warned:
            self.warned = True
            warn(BARE.format(harm=harm), LossScaleWarning)
        self.note_first_applied()
        return scaled

    def note_first_applied(self) -> None:
        """The optimizer was given gradients, of whatever loss."""
        if not self.applied:
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


def watch(optimizer: object) -> None:
    """Warn if the optimizer that `enable` returned is thrown away, or kept but never used."""
    usage = getattr(optimizer, "usage", None)
    if not isinstance(usage, Usage):  # another library's wrapper
        return
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
