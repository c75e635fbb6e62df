"""`mixdown doctor`: whether mixed precision would act here, and what keeps it from it if not."""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from mixdown.cli.options import HELP_STYLE, Commands, add_policy_options, policy_of
from mixdown.cli.progress import Progress

if TYPE_CHECKING:
    import argparse

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
  0  mixed precision acts here, and nothing stands in its way
  1  something keeps it from acting, or conflicts with it
  2  the policy is not understood
"""


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "doctor",
        help="say whether mixed precision acts on this machine, and what to do if not",
        epilog=NOTES,
        formatter_class=HELP_STYLE,
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument("--measure", action="store_true", help="first time every device in each dtype, and store that")
    add_policy_options(parser)
    parser.set_defaults(command=doctor)


def doctor(options: argparse.Namespace) -> int:
    """Look around, and tell."""
    findings = _examine(options)
    healthy = all(finding["state"] != "problem" for finding in findings)
    if options.json:
        sys.stdout.write(json.dumps({"schema": SCHEMA, "healthy": healthy, "findings": findings}, indent=2) + "\n")
    else:
        sys.stdout.write("\n".join(_line(finding) for finding in findings) + "\n")
    return 0 if healthy else 1


def _examine(options: argparse.Namespace) -> list[dict[str, Any]]:
    policy = policy_of(options)
    if find_spec("tensorflow") is None:
        return [MISSING]
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # what TensorFlow says while it starts is no part of the answer
    if options.measure:
        _measure()
    with Progress(2) as progress:
        progress.step("loading TensorFlow")
        host = import_module("mixdown.tensorflow.explaining.doctor")
        progress.step("looking around")
        return [finding._asdict() for finding in host.examine(policy)]


def _measure() -> None:
    """Time every device, and store what was found."""
    measure, measurements = (import_module(f"mixdown.tensorflow.{name}") for name in ("measure", "measurements"))
    kinds = measurements.described()
    with Progress(len(kinds) * measure.steps()) as progress:
        measurements.store({kind: measure.measure_device(kind, progress.step) for kind in kinds})


def _line(finding: dict[str, Any]) -> str:
    way_out = f"\n       {finding['way_out']}" if finding["way_out"] else ""
    return f"{MARKS[finding['state']]} {finding['subject']}: {finding['message']}{way_out}"
