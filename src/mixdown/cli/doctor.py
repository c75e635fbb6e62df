"""`mixdown doctor`: whether mixed precision acts on this machine, and what prevents it if not."""

import argparse
import json
from collections.abc import Sequence
from importlib.util import find_spec

from mixdown import __version__
from mixdown.cli.common import Command, add_policy_options, policy_of, write_line
from mixdown.cli.loading import own_stderr, quiet_start, start_tensorflow
from mixdown.cli.progress import Progress
from mixdown.core import Policy
from mixdown.reports.findings import Finding, at_first_sight

SCHEMA = "mixdown-doctor/1"
MARKS = {"ok": "ok  ", "note": "note", "problem": "!!  "}
NOTES = """examples:
  mixdown doctor
  mixdown doctor --devices GPU,CPU --low bfloat16
  mixdown doctor --json

exit codes:
  0  mixed precision acts here
  1  something prevents or disturbs it
  2  the policy is not understood
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    add_policy_options(parser)


def doctor(options: argparse.Namespace) -> int:
    """Examine the machine, and print the findings; the exit code is 1 if there is a problem."""
    policy = policy_of(options)
    found = at_first_sight(__version__)
    _show(found, options)
    if find_spec("tensorflow") is not None:
        more = _examine(policy)
        _show(more, options)
        found += more
    healthy = all(finding.state != "problem" for finding in found)
    if options.json:
        findings = [finding._asdict() for finding in found]
        write_line(json.dumps({"schema": SCHEMA, "healthy": healthy, "findings": findings}, indent=2))
    return 0 if healthy else 1


def _show(findings: Sequence[Finding], options: argparse.Namespace) -> None:
    """Print findings as soon as there are some: the first need no TensorFlow, which takes seconds to load."""
    for each in [] if options.json else findings:
        way_out = f"\n       {each.way_out}" if each.way_out else ""
        write_line(f"{MARKS[each.state]} {each.subject}: {each.message}{way_out}")


def _examine(policy: Policy) -> list[Finding]:
    with own_stderr(), Progress(2) as progress:
        progress.step("loading TensorFlow")
        start_tensorflow()
        progress.step("examining this machine")
        from mixdown.tensorflow.explaining.doctor import examine  # noqa: PLC0415 - it loads TensorFlow

        with quiet_start():  # it tries the hooks, in 16 bits, of which TensorFlow may complain
            return examine(policy)


COMMAND = Command(
    "say whether mixed precision acts on this machine, and what to do if not", NOTES, _add_arguments, doctor
)
