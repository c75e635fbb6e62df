"""The command line: `mixdown run script.py` runs an old script as it was written."""

from __future__ import annotations

import argparse
import runpy
import sys
from pathlib import Path

from mixdown import __version__, compat
from mixdown.core import MixdownError, Policy
from mixdown.core.policy import LOW_DTYPES, STRATEGIES
from mixdown.rules import RULE_SETS

EXAMPLES = """examples:
  mixdown run train.py --epochs 3
  mixdown run --low bfloat16 --devices GPU,CPU train.py
"""


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line and do what it asks; returns the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        return _run(options)
    except MixdownError as error:
        print(f"mixdown: {error}", file=sys.stderr)  # noqa: T201 - the command line speaks
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mixdown",
        description="Automatic mixed precision for TensorFlow by graph rewrite.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"mixdown {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    run = commands.add_parser(
        "run",
        help="run an old script as it was written: the documented names are put back under tf.*",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run.add_argument("--low", choices=LOW_DTYPES, default="float16", help="the 16-bit dtype (default: float16)")
    run.add_argument(
        "--rules", choices=sorted(RULE_SETS), default="documented", help="the rule set (default: documented)"
    )
    run.add_argument("--strategy", choices=STRATEGIES, default=Policy().strategy, help="how plans are made")
    run.add_argument("--devices", default="gpu", help="gpu, all, or device types such as GPU,CPU (default: gpu)")
    run.add_argument("script", help="the script to run")
    run.add_argument("arguments", nargs=argparse.REMAINDER, help="what to pass on to the script")
    return parser


def _run(options: argparse.Namespace) -> int:
    """Run a script as `python script.py ...` would, with the documented names in place."""
    script = Path(options.script)
    if not script.is_file():
        raise MixdownError(f"There is no script {options.script!r}.")
    compat.install(_policy(options))
    sys.argv = [options.script, *options.arguments]
    sys.path.insert(0, str(script.parent))
    runpy.run_path(options.script, run_name="__main__")
    return 0


def _policy(options: argparse.Namespace) -> Policy:
    devices = options.devices if options.devices in ("gpu", "all") else tuple(options.devices.upper().split(","))
    return Policy(low=options.low, rules=options.rules, strategy=options.strategy, devices=devices)
