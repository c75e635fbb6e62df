"""The record of a loss scale as a row of a report: `scaler_row`, and `omission` for what the row leaves out."""

from mixdown.reports.model import ScalerReport, Skip
from mixdown.scaling import StepRecord


def scaler_row(name: str, record: StepRecord) -> ScalerReport:
    """How one optimizer fared."""
    return ScalerReport(
        name=name,
        loss_scale=record.loss_scale,
        steps=record.steps,
        skipped_steps=record.skipped_steps,
        timeline=record.timeline,
        skips=tuple(Skip(each.step, tuple(each.offenders)) for each in record.skips),
    )


def omission(name: str, record: StepRecord) -> str:
    """What the row leaves out, in a sentence; "" if nothing."""
    if len(record.skips) < record.skipped_steps:
        return f"{name} skipped {record.skipped_steps} steps, of which the latest {len(record.skips)} are listed."
    return ""
