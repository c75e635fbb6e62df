"""The books of an optimizer, for people: `skipped_steps` and its siblings, and `account` for all at once."""

from typing import Any, NamedTuple

import tensorflow as tf

from mixdown.scaling import NEVER, sound
from mixdown.scaling.alarm import Offenders
from mixdown.tensorflow.books import decoded
from mixdown.tensorflow.loss_scale import LossScale


class Account(NamedTuple):
    """How training went so far, in Python values."""

    loss_scale: float
    steps: int
    skipped_steps: int
    last_skipped_step: int | None
    skips_in_a_row: int
    good_steps: int
    offending_variables: Offenders


class Accountable:
    """The accounting of an optimizer with a loss scale: Python values in eager execution, tensors in graphs."""

    _loss_scale: LossScale
    _skip_limit: int | None
    _names: dict[str, int]

    @property
    def steps(self) -> Any:
        """Steps tried so far, skipped ones included."""
        return self._loss_scale.steps

    @property
    def skipped_steps(self) -> Any:
        """Steps skipped so far because a gradient was not finite."""
        return self._loss_scale.skipped_steps

    @property
    def last_skipped_step(self) -> Any:
        """Number of the latest skipped step, counted from 0; None (in graphs -1) if there was none."""
        return self._loss_scale.last_skipped_step

    @property
    def skips_in_a_row(self) -> Any:
        """Steps skipped since the latest one that was applied."""
        return self._loss_scale.skips_in_a_row

    @property
    def good_steps(self) -> Any:
        """Finite steps towards the next growth of the scale; of a fixed scale, since the latest skip."""
        return self._loss_scale.good_steps

    @property
    def offending_variables(self) -> Any:
        """The first variables whose gradient was not finite in the latest skipped step, with "Inf" or "NaN".

        In graphs, an int64 vector that `account` puts into words.
        """
        entries = tf.convert_to_tensor(self._loss_scale.weight("offenders"))
        return decoded(entries.numpy(), list(self._names)) if tf.executing_eagerly() else entries

    def account(self, session: Any = None) -> Account:
        """All of it in Python values; in a v1 graph, read in `session` or in the default session."""
        tensors = {name: getattr(self, name) for name in Account._fields if name != "loss_scale"}
        tensors["loss_scale"] = self._loss_scale()
        if tf.executing_eagerly():
            return Account(**{**tensors, "loss_scale": float(tensors["loss_scale"])})
        return self._account_of((session or tf.compat.v1.get_default_session()).run(tensors))

    def _account_of(self, values: dict[str, Any]) -> Account:
        last = int(values["last_skipped_step"])
        counts = {name: int(values[name]) for name in ("steps", "skipped_steps", "skips_in_a_row", "good_steps")}
        return Account(
            loss_scale=float(values["loss_scale"]),
            last_skipped_step=None if last == NEVER else last,
            offending_variables=decoded(values["offending_variables"], list(self._names)),
            **counts,
        )

    def check_skips(self, session: Any = None) -> None:
        """Raise if too many steps in a row were skipped, for steps that could not say so themselves.

        Raises:
            LossScaleError: `skip_limit` is reached.
        """
        account = self.account(session)
        sound(account.skips_in_a_row, account.offending_variables, skip_limit=self._skip_limit)

    def _numbers(self, variables: Any) -> list[int]:
        """The number of each variable in the books, given out at its first appearance."""
        return [self._names.setdefault(each.name, len(self._names)) for each in variables]
