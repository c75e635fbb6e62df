"""`mixdown.numerics.LocateCallback`: reports, at the first step that loss scaling skips, which op caused it."""

import sys
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import keras

from mixdown.core import Policy
from mixdown.errors import MixdownError
from mixdown.numerics.location import Location
from mixdown.tensorflow.numerics.locate import locate
from mixdown.tensorflow.numerics.probing.runs import Snapshot


class LocateCallback(keras.callbacks.Callback):
    """For Keras 3 `fit`: after the first skipped step, runs that step once more with probes and reports the op.

    The step is repeated from the state, the loss scale and the batch that it had; training then goes on unchanged.
    Until then a step costs a copy of the weights it changes. With tf_keras, use `mixdown.numerics.locating` around
    `fit` instead.

    Args:
        report: called with the `Location`; by default it is printed to standard error.
        policy: what may run in 16 bits; by default the policy in force, or else the default policy.

    Attributes:
        location: the find, None so far.
    """

    def __init__(self, report: Callable[[Location], object] | None = None, policy: Policy | None = None) -> None:
        super().__init__()
        self._report, self._policy = report or _print, policy
        self._plain: Any = None
        self.location: Location | None = None

    def on_train_begin(self, logs: Any = None) -> None:  # noqa: ARG002 - Keras calls it so
        """Replace the step that `fit` runs by one that keeps the batches until it is done."""
        if not hasattr(self.model.optimizer, "skipped_steps"):
            raise MixdownError(
                "LocateCallback waits for the first skipped step, and this optimizer skips none: compile the model "
                "with mixdown.LossScaleOptimizer(...) or what enable_mixed_precision_graph_rewrite returns."
            )
        if self.location is None:
            self._plain, self.model.train_function = self.model.train_function, self._step

    def on_train_end(self, logs: Any = None) -> None:  # noqa: ARG002 - Keras calls it so
        """Put the step back."""
        if self._plain is not None:
            self.model.train_function, self._plain = self._plain, None

    def _step(self, batches: Iterator[Any]) -> Any:
        """One execution of the step, on batches that are held until no step of it was skipped."""
        optimizer, step = self.model.optimizer, self._plain
        held = list(islice(batches, self.model.steps_per_execution))
        if not held or self.location is not None:
            return step(iter(held) if held else batches)
        before = Snapshot(_variables(self.model))
        skipped = int(optimizer.skipped_steps)
        logs = step(iter(held))
        if int(optimizer.skipped_steps) > skipped:
            self._locate(before, lambda: step(iter(held)))
        return logs

    def _locate(self, before: Snapshot, step: Callable[[], Any]) -> None:
        after = Snapshot(_variables(self.model))
        before.restore()
        try:
            self.location = locate(step, policy=self._policy)
        finally:
            after.restore()
        if self.location is not None:
            self._report(self.location)


def _variables(model: Any) -> list[Any]:
    """The TensorFlow variables of a model, its metrics and its optimizer."""
    return [each.value for each in (*model.variables, *model.metrics_variables, *model.optimizer.variables)]


def _print(location: Location) -> None:
    print(location, file=sys.stderr)  # noqa: T201 - for a person at the terminal
