"""What the commands share: how one is declared, the options of the policy, and printing."""

import argparse
import sys
from collections.abc import Callable
from typing import NamedTuple

from mixdown.core import Policy
from mixdown.core.policy import STRATEGIES
from mixdown.reports.rendering.text import encodable
from mixdown.rules import rule_sets_for
from mixdown.rules.spellings import LOW_DTYPES


class Command(NamedTuple):
    """One command."""

    help: str  # what it does, in one line
    notes: str  # examples and exit codes, shown below its options
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]  # returns the exit code


def add_policy_options(parser: argparse.ArgumentParser, *, devices: str = "gpu") -> None:
    """Declare the options that describe a policy; `devices` is the default of --devices."""
    add_low_option(parser)
    parser.add_argument(
        "--rules", choices=rule_sets_for("TensorFlow"), default="documented", help="the rule set (default: documented)"
    )
    parser.add_argument("--strategy", choices=STRATEGIES, default=Policy().strategy, help="how plans are made")
    parser.add_argument(
        "--devices", default=devices, help=f"gpu, all, or device types such as GPU,CPU (default: {devices})"
    )


def add_low_option(parser: argparse.ArgumentParser) -> None:
    """Declare the option that chooses the 16-bit dtype."""
    parser.add_argument("--low", choices=LOW_DTYPES, default="float16", help="the 16-bit dtype (default: float16)")


def policy_of(options: argparse.Namespace) -> Policy:
    """The policy that the options describe."""
    named = options.devices in ("gpu", "all")
    devices = options.devices if named else tuple(options.devices.upper().split(","))
    return Policy(low=options.low, rules=options.rules, strategy=options.strategy, devices=devices)


def write_line(text: str) -> None:
    """Print text on stdout, whatever its encoding, and at once."""
    sys.stdout.write(encodable(text, sys.stdout) + "\n")
    sys.stdout.flush()
