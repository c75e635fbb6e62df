"""The books of an optimizer, for people: `skipped_steps` and its siblings, and `account` for all at once."""

from typing import Any, NamedTuple

import tensorflow as tf

from mixdown import messages
from mixdown.scaling import NEVER, Law, Ledger, Offenders, SkippedStep, Timeline
from mixdown.scaling import sound as plain_sound
from mixdown.scaling.alarm import WARN_AT, trouble
from mixdown.scaling.skip_log import offenders, skipped_steps_of
from mixdown.scaling.timeline import told
from mixdown.tensorflow.loss_scaling.loss_scale import LossScale


class Account(NamedTuple):
    """How training went so far, in Python values."""

    loss_scale: float
    steps: int
    skipped_steps: int
    last_skipped_step: int | None
    skips_in_a_row: int
    good_steps: int
    skips: list[SkippedStep]  # the latest 256, oldest first
    law: Law | None  # of the scale; None if it is none that mixdown knows

    @property
    def offending_variables(self) -> Offenders:
        """The first variables whose gradient was not finite in the latest skipped step, with "Inf" or "NaN"."""
        return self.skips[-1].offenders if self.skips else []

    @property
    def timeline(self) -> Timeline:
        """When the scale changed, and what to, as far as the log of skips reaches back."""
        return told(self.law, self.steps, self.loss_scale, self.skips, self.skipped_steps)


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
        entries = self._loss_scale.latest_entries()
        return offenders(entries.numpy(), list(self._names)) if tf.executing_eagerly() else entries

    def account(self, session: Any = None) -> Account:
        """All of it in Python values, with the log of skips; in a v1 graph, read in `session` or in the default one."""
        weights, scale = dict(self._loss_scale.create()), self._loss_scale.readable()
        if not isinstance(scale, float):
            weights["current_loss_scale"] = scale
        if tf.executing_eagerly():
            values = {name: tf.convert_to_tensor(weight).numpy() for name, weight in weights.items()}
        else:
            values = (session or tf.compat.v1.get_default_session()).run(weights)
        return self._account_of({"current_loss_scale": scale, **values})

    def _account_of(self, values: dict[str, Any]) -> Account:
        ledger = Ledger(*(int(values[name]) for name in Ledger._fields))
        last = ledger.last_skipped_step
        return Account(
            loss_scale=float(values["current_loss_scale"]),
            steps=ledger.steps,
            skipped_steps=ledger.skipped_steps,
            last_skipped_step=None if last == NEVER else last,
            skips_in_a_row=ledger.skips_in_a_row,
            good_steps=int(values.get("good_steps", ledger.steps - last - 1)),
            skips=skipped_steps_of(values["skip_log"].tolist(), values["skip_scales"].tolist(), list(self._names)),
            law=getattr(self._loss_scale, "law", None),
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


def sound(skips_in_a_row: int, found: Offenders, *, skip_limit: int | None) -> None:
    """The alarm of `mixdown.scaling`; a warning it gives is also kept for the report."""
    if skip_limit is None and skips_in_a_row == WARN_AT:
        messages.keep(trouble(skips_in_a_row, found))
    plain_sound(skips_in_a_row, found, skip_limit=skip_limit)
