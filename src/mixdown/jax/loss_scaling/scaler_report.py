"""How a loss scale fared, as a row of a report: `scaler_report`. The state is the user's own, so it is passed in."""

from __future__ import annotations

from typing import Any

from mixdown.jax.loss_scaling.loss_scale import loss_scale_in
from mixdown.reports.model import ScalerReport
from mixdown.reports.scalers import scaler_row


def scaler_report(state: Any, name: str = "optimizer") -> ScalerReport:
    """The row of a report on the loss scale that a state holds.

    Args:
        state: a `LossScale`, or the state of an optimizer that holds one; not inside jit.
        name: what the report calls it.

    Raises:
        ValueError: there is no `LossScale` in it, or more than one.
    """
    return scaler_row(name, loss_scale_in(state).record())
