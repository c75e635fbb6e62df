"""What a Keras 3 loss-scale optimizer keeps: one Keras weight per field of the state machine and of the counts.

`Keras3Counters` is a base of `Keras3LossScaleOptimizer`. Its weights are saved, restored and mirrored by Keras and
TensorFlow like those of any optimizer.
"""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from mixdown.scaling import CountProperties, Law, State, StepCounts, StepRecord, after, counted, start
from mixdown.scaling.machine import Where
from mixdown.scaling.step_counters import KEPT, LOG_SHAPE, NEVER, Offenders, SkippedStep, row_of, skipped_steps_of


class Keras3Counters(CountProperties):
    """Mixed into a Keras optimizer, whose `add_variable` it uses."""

    law: Law
    backend: Any  # the module that takes a step on Keras's backend
    add_variable: Callable[..., Any]
    _trainable_variables: list[Any]

    def create_counters(self) -> None:
        """Make the weights that need no model: from here on the current scale is a variable, never a constant."""
        state, counts = start(self.law), StepCounts()
        self.dynamic_scale = self._counter("dynamic_scale", state.scale, dtype="float32")
        self.step_counter = self._counter("step_counter", state.good_steps)
        self.bad_counter = self._counter("bad_counter", state.bad_steps)
        self.steps_tried = self._counter("steps_tried", counts.steps)
        self.skip_counter = self._counter("skip_counter", counts.skipped_steps)
        self.latest_skip = self._counter("latest_skip", counts.last_skipped_step)
        self.skip_run = self._counter("skip_run", counts.skips_in_a_row)
        self.skip_log = self._counter("skip_log", NEVER, shape=LOG_SHAPE)
        self.skip_scales = self._counter("skip_scales", 0, shape=(KEPT,), dtype="float32")

    def _counter(self, name: str, value: float, shape: tuple[int, ...] = (), dtype: str = "int") -> Any:
        """Make one weight, of which every replica has a copy. All write the same value, so the first one's will do."""
        return self.add_variable(
            shape,
            initializer=keras.initializers.Constant(value),
            dtype=dtype,
            aggregation="only_first_replica",  # "none" says it better, but Keras 3.5 does not know it
            name=name,
        )

    def state_weights(self) -> State:
        """The weights of the state machine."""
        return State(self.dynamic_scale, self.step_counter, self.bad_counter)

    def count_weights(self) -> StepCounts:
        """The weights of the counts."""
        return StepCounts(self.steps_tried, self.skip_counter, self.latest_skip, self.skip_run)

    def count_step(self, finite: Any, *, where: Where) -> None:
        """Move the scale and count one more step, applied or skipped."""
        weights = (*self.state_weights(), *self.count_weights())
        old = [*map(self.backend.tensor, weights)]
        state, counts = State(*old[: len(State._fields)]), StepCounts(*old[len(State._fields) :])
        new = (*after(self.law, state, finite=finite, where=where), *counted(counts, finite=finite, where=where))
        for weight, before, value in zip(weights, old, new, strict=True):
            if value is not before:
                weight.assign(value)

    def log_skip(self, entries: Any, *, finite: Any, where: Where) -> None:
        """Log the step that was just counted, with its offenders, unless it was finite."""
        latest, bad, count, scale = map(
            self.backend.tensor, (self.latest_skip, self.bad_counter, self.skip_counter, self.dynamic_scale)
        )
        # Chosen row by row: of a scatter, XLA compiles several kernels.
        here = ops.equal(ops.arange(KEPT, dtype=count.dtype), row_of(count))
        row = ops.concatenate([ops.stack([latest, bad]), ops.cast(entries, latest.dtype)])
        for ring, at, new in ((self.skip_log, here[:, None], row), (self.skip_scales, here, scale)):
            old = self.backend.tensor(ring)
            ring.assign(where(finite, old, ops.where(at, new, old)))

    def read_count(self, field: str) -> Any:
        """The value of a field of `StepCounts`: a Python number; while a graph is traced, a tensor."""
        return self.backend.now(getattr(self.count_weights(), field))

    loss_scale = property(lambda self: self.backend.now(self.dynamic_scale), doc="The scale of the next step.")
    good_steps = property(
        lambda self: self.backend.now(self.step_counter),
        doc="Steps applied since the scale last changed or a step was skipped.",
    )

    @property
    def skips(self) -> list[SkippedStep]:
        """The latest 256 skipped steps, oldest first."""
        rows, scales = self.skip_log.numpy().tolist(), self.skip_scales.numpy().tolist()
        return skipped_steps_of(rows, scales, self.variable_names())

    @property
    def offending_variables(self) -> Offenders:
        """(variable, "Inf" | "NaN" | "Inf and NaN") of the latest skip: the first eight."""
        skips = self.skips
        return skips[-1].offenders if skips else []

    def account(self) -> StepRecord:
        """All of it at once, in Python values."""
        return StepRecord(**{name: getattr(self, name) for name in StepRecord._fields})

    def variable_names(self) -> list[str]:
        """The names of the trained variables in messages."""
        return [getattr(each, "path", each.name) for each in self._trainable_variables]
