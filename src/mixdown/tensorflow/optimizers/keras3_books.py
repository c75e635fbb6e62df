"""What a Keras 3 loss-scale optimizer remembers: one Keras weight per field of the pure machine and ledger.

`Books` is a part of `Keras3LossScaleOptimizer`; `enter` is the only method that writes. The weights are saved, restored
and mirrored by Keras and TensorFlow like those of any optimizer, so the books survive whatever the momenta survive.
"""

from collections.abc import Callable
from typing import Any

import keras

from mixdown.scaling import NEVER, Law, Ledger, State, Where, after, blank, entered, offenders, start
from mixdown.scaling.alarm import Offenders


class Books:
    """Mixed into a Keras optimizer, whose `add_variable` it uses."""

    law: Law
    now: Callable[[Any], Any]  # the value of a weight: a Python number where it can be known
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

    def open_offences(self, variables: list[Any]) -> None:
        """Make the weight that says what each variable's gradient held at the latest skip."""
        self.offences = self.open_account("offences", 0, shape=(len(variables),), dtype="int32")

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
        state = State(*map(keras.ops.convert_to_tensor, self.state_weights()))
        ledger = Ledger(*map(keras.ops.convert_to_tensor, self.ledger_weights()))
        news = (
            *after(self.law, state, finite=finite, where=where),
            *entered(ledger, finite=finite, where=where),
        )
        for weight, new in zip((*self.state_weights(), *self.ledger_weights()), news, strict=True):
            weight.assign(new)

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
    def offending_variables(self) -> Offenders:
        """(variable, "Inf" | "NaN" | "Inf and NaN") of the latest skip: the first eight."""
        if not hasattr(self, "offences"):
            return []
        return offenders(self.variable_names(), self.offences.numpy())

    def variable_names(self) -> list[str]:
        """How the trained variables are called in messages."""
        return [getattr(each, "path", each.name) for each in self._trainable_variables]
