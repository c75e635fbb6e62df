"""The options that several commands share: which policy to plan with."""

from __future__ import annotations

import argparse
from typing import Any

from mixdown.core import Policy
from mixdown.core.policy import LOW_DTYPES, STRATEGIES
from mixdown.rules import RULE_SETS

HELP_STYLE = argparse.RawDescriptionHelpFormatter

Commands = Any
"""What argparse's `add_subparsers` returns; it has no public name."""


def add_policy_options(parser: argparse.ArgumentParser, *, devices: str = "gpu") -> None:
    """Let a command be told the policy; `devices` is what it takes by default."""
    parser.add_argument("--low", choices=LOW_DTYPES, default="float16", help="the 16-bit dtype (default: float16)")
    parser.add_argument(
        "--rules", choices=sorted(RULE_SETS), default="documented", help="the rule set (default: documented)"
    )
    parser.add_argument("--strategy", choices=STRATEGIES, default=Policy().strategy, help="how plans are made")
    parser.add_argument(
        "--devices", default=devices, help=f"gpu, all, measured, or device types such as GPU,CPU (default: {devices})"
    )


def policy_of(options: argparse.Namespace) -> Policy:
    """The policy that the options describe."""
    named = options.devices in ("gpu", "all", "measured")
    devices = options.devices if named else tuple(options.devices.upper().split(","))
    return Policy(low=options.low, rules=options.rules, strategy=options.strategy, devices=devices)
