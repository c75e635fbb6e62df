"""What a Keras 3 loss-scale optimizer remembers: one Keras weight per field of the pure machine and ledger.

`Books` is a part of `Keras3LossScaleOptimizer`; `enter` is the only method that writes. The weights are saved, restored
and mirrored by Keras and TensorFlow like those of any optimizer, so the books survive whatever the momenta survive.
"""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from mixdown.scaling import NEVER, Law, Ledger, Offenders, SkippedStep, State, Where, after, blank, entered, start
from mixdown.scaling.skip_log import KEPT, LOG_SHAPE, place, skipped_steps_of
from mixdown.tensorflow.loss_scaling.optimizers.step_record import Account


class Books:
    """Mixed into a Keras optimizer, whose `add_variable` it uses."""

    law: Law
    now: Callable[[Any], Any]  # the value of a weight: a Python number where it can be known
    tensor: Callable[[Any], Any]  # the value of a weight, as a tensor of the backend
    add_variable: Callable[..., Any]
    _trainable_variables: list[Any]

    def open_books(self) -> None:
        """Make the weights that need no model: from here on the current scale is a variable, never a constant."""
        state, ledger = start(self.law), blank()
        self.dynamic_scale = self.open_account("dynamic_scale", state.scale, dtype="float32")
        self.step_counter = self.open_account("step_counter", state.good_steps)
        self.bad_counter = self.open_account("bad_counter", state.bad_steps)
        self.steps_tried = self.open_account("steps_tried", ledger.steps)
        self.skip_counter = self.open_account("skip_counter", ledger.skipped_steps)
        self.latest_skip = self.open_account("latest_skip", ledger.last_skipped_step)
        self.skip_run = self.open_account("skip_run", ledger.skips_in_a_row)
        self.skip_log = self.open_account("skip_log", NEVER, shape=LOG_SHAPE)
        self.skip_scales = self.open_account("skip_scales", 0, shape=(KEPT,), dtype="float32")

    def open_account(self, name: str, value: float, shape: tuple[int, ...] = (), dtype: str = "int") -> Any:
        """Make one weight, of which every replica has a copy. All write the same value, so the first one's will do."""
        return self.add_variable(
            shape,
            initializer=keras.initializers.Constant(value),
            dtype=dtype,
            aggregation="only_first_replica",  # "none" says it better, but Keras 3.5 does not know it
            name=name,
        )

    def enter(self, finite: Any, *, where: Where) -> None:
        """Enter one more step, applied or skipped."""
        weights = (*self.state_weights(), *self.ledger_weights())
        olds = [*map(self.tensor, weights)]
        state, ledger = State(*olds[: len(State._fields)]), Ledger(*olds[len(State._fields) :])
        news = (*after(self.law, state, finite=finite, where=where), *entered(ledger, finite=finite, where=where))
        for weight, old, new in zip(weights, olds, news, strict=True):
            if new is not old:
                weight.assign(new)

    def log_skip(self, entries: Any, *, finite: Any, where: Where) -> None:
        """Log the step that was just entered, with its offenders, unless it was finite."""
        at = ops.reshape(place(self.tensor(self.skip_counter)), [1, 1])
        head = ops.stack([self.tensor(self.latest_skip), self.tensor(self.bad_counter)])
        row = ops.concatenate([head, ops.cast(entries, head.dtype)])
        for ring, new in ((self.skip_log, row), (self.skip_scales, self.tensor(self.dynamic_scale))):
            old = self.tensor(ring)
            ring.assign(where(finite, old, ops.scatter_update(old, at, ops.expand_dims(new, 0))))

    def state_weights(self) -> State:
        """The weights behind the state machine."""
        return State(self.dynamic_scale, self.step_counter, self.bad_counter)

    def ledger_weights(self) -> Ledger:
        """The weights behind the ledger."""
        return Ledger(self.steps_tried, self.skip_counter, self.latest_skip, self.skip_run)

    @property
    def loss_scale(self) -> Any:
        """The scale of the next step. This and the counts are Python numbers; while a graph is traced, tensors."""
        return self.now(self.dynamic_scale)

    @property
    def good_steps(self) -> Any:
        """Steps applied since the scale last changed or a step was skipped."""
        return self.now(self.step_counter)

    @property
    def steps(self) -> Any:
        """Steps tried so far, skipped ones included."""
        return self.now(self.steps_tried)

    @property
    def skipped_steps(self) -> Any:
        """Steps skipped so far: their gradients were not finite, and they changed no weight."""
        return self.now(self.skip_counter)

    @property
    def last_skipped_step(self) -> Any:
        """Number of the latest skipped step, counted from 0 over all steps tried; None (in graphs -1) if none was."""
        step = self.now(self.latest_skip)
        return None if isinstance(step, int) and step == NEVER else step

    @property
    def skips_in_a_row(self) -> Any:
        """Steps skipped since the latest applied one."""
        return self.now(self.skip_run)

    @property
    def skips(self) -> list[SkippedStep]:
        """The latest 256 skipped steps, oldest first."""
        return skipped_steps_of(
            self.skip_log.numpy().tolist(), self.skip_scales.numpy().tolist(), self.variable_names()
        )

    @property
    def offending_variables(self) -> Offenders:
        """(variable, "Inf" | "NaN" | "Inf and NaN") of the latest skip: the first eight."""
        skips = self.skips
        return skips[-1].offenders if skips else []

    def account(self) -> Account:
        """All of it at once."""
        return Account(**{name: getattr(self, name) for name in Account._fields})

    def variable_names(self) -> list[str]:
        """How the trained variables are called in messages."""
        return [getattr(each, "path", each.name) for each in self._trainable_variables]
