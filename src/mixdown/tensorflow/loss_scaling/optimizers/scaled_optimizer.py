"""What v1 and tf_keras loss-scale optimizers share: the counters of steps, and a step that applies or skips.

A step is: one check of the gradients, one agreement between the replicas, then `apply_or_skip`. In the branch taken
nearly always the inner optimizer runs; in the other one only the offending variables are logged.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from mixdown.scaling import CountProperties, SkipLimit, StepCounts, StepRecord
from mixdown.scaling.step_counters import HEAD, NEVER, offenders, row_of, skipped_steps_of
from mixdown.tensorflow.loss_scaling.branching import either
from mixdown.tensorflow.loss_scaling.gradients import agreed_codes
from mixdown.tensorflow.loss_scaling.loss_scale import LossScale
from mixdown.tensorflow.loss_scaling.step_counters import raise_or_warn


class ScaledOptimizer(CountProperties):
    """The counters of an optimizer with a loss scale: Python values in eager execution, tensors in graphs."""

    _loss_scale: LossScale
    _skips: SkipLimit
    _names: dict[str, int]  # of variables, with the number each has in the log

    def __repr__(self) -> str:
        inner = getattr(self, "inner_optimizer", None) or getattr(self, "_optimizer", None)
        law = getattr(self._loss_scale, "law", None)
        scale = repr(self._loss_scale) if law is None else law.described
        return f"<LossScaleOptimizer of {type(inner).__name__}, {scale}>"

    def read_count(self, field: str) -> Any:
        """The value of a field of `StepCounts`."""
        return self._loss_scale.read_count(field)

    @property
    def good_steps(self) -> Any:
        """Finite steps towards the next growth of the scale; of a fixed scale, since the latest skip."""
        return self._loss_scale.good_steps

    @property
    def offending_variables(self) -> Any:
        """The first variables whose gradient was not finite in the latest skipped step, with "Inf" or "NaN".

        In graphs an int64 vector, which `account` translates.
        """
        log, skipped = map(self._loss_scale.tensor, ("skip_log", "skipped_steps"))
        entries = log[row_of(skipped), HEAD:]
        return offenders(entries.numpy(), list(self._names)) if tf.executing_eagerly() else entries

    def account(self, session: Any = None) -> StepRecord:
        """All of it in Python values, with the log of skips; in a v1 graph, read in `session` or in the default one."""
        weights, scale = dict(self._loss_scale.create()), self._loss_scale.readable()
        if not isinstance(scale, float):
            weights["current_loss_scale"] = scale
        if tf.executing_eagerly():
            values = {name: tf.convert_to_tensor(weight).numpy() for name, weight in weights.items()}
        else:
            values = (session or tf.compat.v1.get_default_session()).run(weights)
        counts = {name: int(values[name]) for name in StepCounts._fields}
        last = counts.pop("last_skipped_step")
        return StepRecord(
            **counts,
            loss_scale=float(values.get("current_loss_scale", scale)),
            last_skipped_step=None if last == NEVER else last,
            good_steps=int(values.get("good_steps", counts["steps"] - last - 1)),
            skips=skipped_steps_of(values["skip_log"].tolist(), values["skip_scales"].tolist(), list(self._names)),
            law=getattr(self._loss_scale, "law", None),
        )

    def check_skips(self, session: Any = None) -> None:
        """Raise, or warn once, if too many steps in a row were skipped; for compiled steps, which cannot do so.

        Raises:
            LossScaleError: `skip_limit` is reached.
        """
        record = self.account(session)
        self._skips.raise_or_warn(record.skips_in_a_row, record.offending_variables)

    def _numbers(self, variables: Any) -> list[int]:
        """The number of each variable in the log, assigned when it first appears."""
        return [self._names.setdefault(each.name, len(self._names)) for each in variables]


def apply_or_skip(
    optimizer: ScaledOptimizer,
    finite: tf.Tensor,
    gradients: list[Any],
    numbers: Sequence[int],
    apply: Callable[[], Any],
    *,
    checked: list[Any] | None = None,
) -> tf.Tensor | None:
    """Move the scale, count the step, then apply or skip; gives what to wait for, in a graph, None if it is done.

    `finite` is of all replicas, `numbers` are those of the variables in the log, and `checked` is what was checked, if
    not the gradients themselves.
    """
    scale = optimizer._loss_scale
    moved, advice = scale.decide(gradients, finite)
    good = finite if advice is True else tf.logical_and(finite, advice)
    counted, skips = scale.count_step(finite=good)

    def skip() -> Any:
        entries = scale.log_skip(numbers, agreed_codes(gradients if checked is None else checked), scale())
        return [entries, raise_or_warn(optimizer._skips, optimizer._names, skips, entries)]

    with tf.control_dependencies([each for each in (moved, counted) if each is not None]):
        return either(good, apply, skip)
