"""`mixdown doctor`: whether mixed precision acts on this machine, and what prevents it if not."""

from __future__ import annotations

import argparse
import json
import os
from importlib.util import find_spec
from typing import Any

from mixdown.cli.common import Command, add_policy_options, policy_of, write_line
from mixdown.cli.progress import Progress

SCHEMA = "mixdown-doctor/1"
MARKS = {"ok": "ok  ", "note": "note", "problem": "!!  "}
MISSING = {
    "subject": "tensorflow",
    "state": "problem",
    "message": "not installed",
    "way_out": "pip install 'mixdown[tensorflow]'",
}
NOTES = """examples:
  mixdown doctor
  mixdown doctor --devices GPU,CPU --low bfloat16
  mixdown doctor --measure                 time this machine, once, for Policy(devices="measured")
  mixdown doctor --json

exit codes:
  0  mixed precision acts here
  1  something prevents or disturbs it
  2  the policy is not understood
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument("--measure", action="store_true", help="first time every device in each dtype, and store that")
    add_policy_options(parser)


def doctor(options: argparse.Namespace) -> int:
    """Examine the machine, and print the findings; the exit code is 1 if there is a problem."""
    findings = _examine(options)
    healthy = all(finding["state"] != "problem" for finding in findings)
    if options.json:
        write_line(json.dumps({"schema": SCHEMA, "healthy": healthy, "findings": findings}, indent=2))
    else:
        write_line("\n".join(map(_line, findings)))
    return 0 if healthy else 1


def _examine(options: argparse.Namespace) -> list[dict[str, Any]]:
    policy = policy_of(options)
    if find_spec("tensorflow") is None:
        return [MISSING]
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow's own log lines do not belong in the output
    if options.measure:
        _measure()
    with Progress(2) as progress:
        progress.step("loading TensorFlow")
        from mixdown.tensorflow.explaining.doctor import examine  # noqa: PLC0415 - it loads TensorFlow

        progress.step("examining this machine")
        return [finding._asdict() for finding in examine(policy)]


def _measure() -> None:
    """Time every device, and store the measurements."""
    from mixdown.tensorflow.machine import measure, measurements  # noqa: PLC0415 - they load TensorFlow

    kinds = measurements.described()
    with Progress(len(kinds) * measure.steps()) as progress:
        measurements.store({kind: measure.measure_device(kind, progress.step) for kind in kinds})


def _line(finding: dict[str, Any]) -> str:
    way_out = f"\n       {finding['way_out']}" if finding["way_out"] else ""
    return f"{MARKS[finding['state']]} {finding['subject']}: {finding['message']}{way_out}"


COMMAND = Command(
    "say whether mixed precision acts on this machine, and what to do if not", NOTES, _add_arguments, doctor
)
